"""Embedding of texts that are not stored."""

import asyncio

from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding import Embedders
from groundline_runtime.errors import FailedPreconditionError, FieldViolation, InvalidArgumentError

__all__ = ["EmbeddingService"]


class EmbeddingService:
    """Use case that embeds a caller's texts as documents are embedded."""

    def __init__(self, embedders: Embedders) -> None:
        self._embedders = embedders

    async def embed(self, request: pb.EmbedTextsRequest) -> pb.EmbedTextsResponse:
        """Return one vector for each text. Raises FailedPreconditionError (EMBEDDING_MODEL_MISMATCH),
        InvalidArgumentError for other dimensions than the model's."""
        embedder = self._embedders.of(request.model) if request.model else self._embedders.default
        if embedder is None:
            raise FailedPreconditionError(
                "EMBEDDING_MODEL_MISMATCH",
                f"{request.model} is not a model that is running: {', '.join(self._embedders.models)}",
                metadata={"running_model": self._embedders.default.model},
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
