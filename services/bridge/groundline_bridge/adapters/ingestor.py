"""The ingestor over gRPC."""

from typing import Final

import grpc
from groundline.v1 import ingestor_service_pb2_grpc
from groundline_runtime.status import UnaryCall

SERVICE: Final = "groundline.v1.IngestorService"


class GrpcIngestor:
    """An Ingestor; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub: ingestor_service_pb2_grpc.IngestorServiceAsyncStub = (
            ingestor_service_pb2_grpc.IngestorServiceStub(channel)
        )
        self.get_collection = UnaryCall(stub.GetCollection, "the ingestor")
        self.list_collections = UnaryCall(stub.ListCollections, "the ingestor")
        self.get_document = UnaryCall(stub.GetDocument, "the ingestor")
        self.list_documents = UnaryCall(stub.ListDocuments, "the ingestor")
        self.get_document_text = UnaryCall(stub.GetDocumentText, "the ingestor")
        self.embed_texts = UnaryCall(stub.EmbedTexts, "the ingestor")
