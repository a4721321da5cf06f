"""The llm strategy: the generator's judge of relevance, over gRPC."""

from collections.abc import Sequence
from typing import Final

import grpc
from groundline.v1 import generator_service_pb2, generator_service_pb2_grpc, passage_pb2
from groundline_runtime.charges import charge, usage_of
from groundline_runtime.errors import GroundlineError, InternalError
from groundline_runtime.status import UnaryCall

from groundline_reranker.adapters.documents import MAX_DOCUMENT_CHARACTERS, in_batches

SERVICE: Final = "groundline.v1.GeneratorService"


class JudgeScorer:
    """A Scorer over JudgeRelevance: `batch_size` passages a call, 1 to 100, all calls at once.

    Calls carry the deadline and the caller of the current request.
    """

    def __init__(self, channel: grpc.aio.Channel, *, batch_size: int) -> None:
        stub: generator_service_pb2_grpc.GeneratorServiceAsyncStub = (
            generator_service_pb2_grpc.GeneratorServiceStub(channel)
        )
        self._judge = UnaryCall(stub.JudgeRelevance, "the generator")
        self._batch_size = batch_size

    async def score(
        self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str | None
    ) -> Sequence[float]:
        """Return relevances, 0 to 1."""
        return await in_batches(
            chunks, self._batch_size, lambda batch: self._batch(query, batch, model or "")
        )

    async def _batch(self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str) -> Sequence[float]:
        request = generator_service_pb2.JudgeRelevanceRequest(
            query=query,
            passages=[
                generator_service_pb2.NumberedPassage(
                    number=number,
                    text=chunk.text[:MAX_DOCUMENT_CHARACTERS],
                    context=chunk.context,
                    title=chunk.title,
                    chunk_id=chunk.chunk_id,
                )
                for number, chunk in enumerate(chunks, 1)
            ],
            model=model,
        )
        try:
            response = await self._judge(request)
        except GroundlineError as error:
            charge(usage_of(error))
            raise
        charge(response.usage)
        if len(response.relevances) != len(chunks):
            raise InternalError("JUDGEMENT_INCOMPLETE", "the judge did not judge every passage")
        return list(response.relevances)
