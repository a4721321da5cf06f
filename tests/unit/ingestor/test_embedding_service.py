"""Texts that are embedded and not kept."""

from collections.abc import Sequence

import numpy as np
import pytest
from groundline.v1 import chat_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding import Embedders
from groundline_embedding.ports import Vectors
from groundline_ingestor.service.embeddings import EmbeddingService
from groundline_runtime.charges import charge
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError, InvalidArgumentError, ResourceExhaustedError
from groundline_runtime.quotas import Budgets
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.runtime import FakeLedger, spending_in
from groundline_validation import violations_of

EMBEDDER = FakeEmbedder()
SERVICE = EmbeddingService(Embedders([EMBEDDER]), spending_in())
ANN = Caller(("user:ann",))


class Billed(FakeEmbedder):
    """A hosted model: its provider counts 10 tokens, a cent each."""

    def cost(self, tokens: int) -> float:
        return tokens / 100

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        charge(chat_pb2.Usage(embedding_tokens=10, cost_usd=0.1))
        return await super().embed_documents(texts)


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (pb.EmbedTextsRequest(), ["texts"]),
        (pb.EmbedTextsRequest(texts=["a"] * 257), ["texts"]),
        (pb.EmbedTextsRequest(texts=["a", " "], dimensions=-1), ["texts[1]", "dimensions"]),
        (pb.EmbedTextsRequest(texts=["a" * 32_001]), ["texts[0]"]),
    ],
)
def test_what_is_beyond_the_limits_is_named(request_: pb.EmbedTextsRequest, fields: list[str]) -> None:
    assert [violation.field for violation in violations_of(request_)] == fields


async def test_another_model_than_the_one_running_is_refused() -> None:
    with pytest.raises(FailedPreconditionError, match=EMBEDDER.model) as refused:
        await SERVICE.embed(ANN, pb.EmbedTextsRequest(texts=["a"], model="other"))
    assert refused.value.reason == "EMBEDDING_MODEL_MISMATCH"


async def test_other_dimensions_than_the_models_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="256 dimensions"):
        await SERVICE.embed(ANN, pb.EmbedTextsRequest(texts=["a"], dimensions=128))


async def test_texts_that_cost_money_count_for_their_caller_and_are_refused_when_a_budget_is_spent() -> None:
    for spent_usd in (1.0, 0.9):
        ledger = FakeLedger(Budgets(day_usd=1), spent_usd=spent_usd)
        service = EmbeddingService(Embedders([Billed()]), spending_in(ledger))
        if spent_usd == 1.0:
            with pytest.raises(ResourceExhaustedError) as refused:
                await service.embed(ANN, pb.EmbedTextsRequest(texts=["a"]))
            assert refused.value.reason == "QUOTA_EXHAUSTED"
            assert not ledger.booked
        else:
            embedded = await service.embed(ANN, pb.EmbedTextsRequest(texts=["a"]))
            assert embedded.token_count == 10
            assert ledger.booked == [("user:ann", 0.1)]
    free = EmbeddingService(Embedders([EMBEDDER]), spending_in(FakeLedger(Budgets(day_usd=1), spent_usd=1)))
    assert (await free.embed(ANN, pb.EmbedTextsRequest(texts=["a"]))).embeddings


async def test_texts_are_embedded_in_their_order_as_documents_are() -> None:
    texts = ["the tower is high", "leave", "the tower is high"]
    embedded = await SERVICE.embed(
        ANN, pb.EmbedTextsRequest(texts=texts, model=EMBEDDER.model, dimensions=256)
    )
    expected = await EMBEDDER.embed_documents(texts)
    assert np.array_equal([each.values for each in embedded.embeddings], expected)
    assert (embedded.model, embedded.token_count) == (EMBEDDER.model, 9)
