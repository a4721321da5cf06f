"""Embedding of texts that are not stored."""

import asyncio

from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding import Embedder
from groundline_runtime.errors import FailedPreconditionError, FieldViolation, InvalidArgumentError

__all__ = ["EmbeddingService"]


class EmbeddingService:
    """Use case that embeds a caller's texts as documents are embedded."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def embed(self, request: pb.EmbedTextsRequest) -> pb.EmbedTextsResponse:
        """Return one vector for each text. Raises FailedPreconditionError (EMBEDDING_MODEL_MISMATCH),
        InvalidArgumentError for other dimensions than the model's."""
        embedder = self._embedder
        if request.model not in ("", embedder.model):
            raise FailedPreconditionError(
                "EMBEDDING_MODEL_MISMATCH",
                f"{request.model} is not the model that is running, which is {embedder.model}",
                metadata={"running_model": embedder.model},
            )
        if request.dimensions not in (0, embedder.dimensions):
            wrong = f"vectors of {embedder.model} have {embedder.dimensions} dimensions"
            raise InvalidArgumentError([FieldViolation("dimensions", wrong)])
        counts = await asyncio.to_thread(embedder.count_tokens, request.texts)
        vectors = await embedder.embed_documents(request.texts)
        return pb.EmbedTextsResponse(
            embeddings=[pb.Embedding(values=vector) for vector in vectors.tolist()],
            model=embedder.model,
            token_count=sum(counts),
        )
