"""Embedding of texts that are not stored."""

import asyncio

from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding import Embedders
from groundline_runtime.charges import metered, total
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError, FieldViolation, InvalidArgumentError
from groundline_runtime.quotas import Spending

from groundline_ingestor.metrics import CLIENTS, COST


class EmbeddingService:
    """Use case that embeds a caller's texts as documents are embedded."""

    def __init__(self, embedders: Embedders, spending: Spending) -> None:
        self._embedders = embedders
        self._spending = spending

    async def embed(self, caller: Caller, request: pb.EmbedTextsRequest) -> pb.EmbedTextsResponse:
        """Return one vector for each text. Raises FailedPreconditionError (EMBEDDING_MODEL_MISMATCH),
        InvalidArgumentError for other dimensions than the model's, ResourceExhaustedError (QUOTA_EXHAUSTED)
        if the model costs money and a budget is spent."""
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
        if self._spending.have_budgets and await asyncio.to_thread(embedder.cost, 1) != 0:
            await self._spending.require(caller.owner)
        counts = await asyncio.to_thread(embedder.count_tokens, request.texts)
        with metered() as paid:
            vectors = await embedder.embed_documents(request.texts)
        if paid:
            usage = total(paid)
            if usage.cost_usd:
                COST.add(usage.cost_usd, {"client": CLIENTS(caller.owner), "collection": "none"})
            await self._spending.spend(caller.owner, usage)
        return pb.EmbedTextsResponse(
            embeddings=[pb.Embedding(values=vector) for vector in vectors.tolist()],
            model=embedder.model,
            token_count=total(paid).embedding_tokens or sum(counts),
        )
