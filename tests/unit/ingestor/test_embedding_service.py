"""Texts that are embedded and not kept."""

import numpy as np
import pytest
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding import Embedders
from groundline_ingestor.service.embeddings import EmbeddingService
from groundline_runtime.errors import FailedPreconditionError, InvalidArgumentError
from groundline_tests.embedding import FakeEmbedder
from groundline_validation import violations_of

EMBEDDER = FakeEmbedder()


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
        await EmbeddingService(Embedders([EMBEDDER])).embed(pb.EmbedTextsRequest(texts=["a"], model="other"))
    assert refused.value.reason == "EMBEDDING_MODEL_MISMATCH"


async def test_other_dimensions_than_the_models_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="256 dimensions"):
        await EmbeddingService(Embedders([EMBEDDER])).embed(pb.EmbedTextsRequest(texts=["a"], dimensions=128))


async def test_texts_are_embedded_in_their_order_as_documents_are() -> None:
    texts = ["the tower is high", "leave", "the tower is high"]
    embedded = await EmbeddingService(Embedders([EMBEDDER])).embed(
        pb.EmbedTextsRequest(texts=texts, model=EMBEDDER.model, dimensions=256)
    )
    expected = await EMBEDDER.embed_documents(texts)
    assert np.array_equal([each.values for each in embedded.embeddings], expected)
    assert (embedded.model, embedded.token_count) == (EMBEDDER.model, 9)
