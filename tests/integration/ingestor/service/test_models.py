"""Collections of several embedding models in one ingestor."""

import pytest
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2
from groundline_database import Pool, acquire
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL
from groundline_embedding.settings import DEFAULT_MODEL
from groundline_extraction.documents import GivenDocument
from groundline_tests.ingestor.messages import settings_of
from groundline_tests.ingestor.services import ANYBODY, FaultyEmbedder, Services, Start, new


@pytest.fixture
def other() -> FaultyEmbedder:
    return FaultyEmbedder(MULTILINGUAL_MODEL, 64)


@pytest.fixture
def both(start: Start, other: FaultyEmbedder) -> Services:
    return start(embedder=FaultyEmbedder(DEFAULT_MODEL), others=[other])


async def vectors_of(pool: Pool, collection_id: str) -> list[tuple[str, int]]:
    """Text and length of the vector of each chunk."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            """
            SELECT c.original_text, vector_dims(c.embedding) FROM collections o
            JOIN documents d USING (collection_id)
            JOIN chunks c ON c.partition_id = o.partition_id AND c.document_id = d.document_id
            WHERE o.collection_id = $1 ORDER BY 1
            """,
            collection_id,
        )
    return [(text, length) for text, length in rows]


async def test_each_collection_is_embedded_by_its_own_model(
    both: Services, other: FaultyEmbedder, pool: Pool
) -> None:
    await both.collections.create(ANYBODY, new("english"))
    settings = {"embedding": {"model": other.model}}
    created = await both.collections.create(ANYBODY, new("named", settings=settings))
    assert (created.settings.embedding.model, created.settings.embedding.dimensions) == (other.model, 64)
    # Waiting together, they are taken, and embedded, in one group.
    handed_in = [
        await both.ingestion.ingest(ANYBODY, name, [GivenDocument(f"a text of {name}", uri="1")], "")
        for name in ("english", "named")
    ]
    for taken in handed_in:
        job, items = await both.ended(taken.job)
        assert job.state == job_pb2.JOB_STATE_DONE, items
        assert job.usage.embedding_tokens == 5
    assert await vectors_of(pool, "english") == [("a text of english", 256)]
    assert await vectors_of(pool, "named") == [("a text of named", 64)]
    assert both.embedder.texts == ["1\n\na text of english"]
    assert other.texts == ["1\n\na text of named"]


async def test_the_same_text_of_two_models_is_remembered_apart(
    both: Services, other: FaultyEmbedder, pool: Pool
) -> None:
    await both.collections.create(ANYBODY, new("english"))
    await both.collections.create(ANYBODY, new("named", settings={"embedding": {"model": other.model}}))
    await both.collections.create(ANYBODY, new("again"))
    for name in ("english", "named", "again"):
        await both.ingest(GivenDocument("the same text", uri="same"), collection_id=name)
    assert await vectors_of(pool, "named") == [("the same text", 64)]
    assert await vectors_of(pool, "again") == [("the same text", 256)]
    assert both.embedder.texts == other.texts == ["same\n\nthe same text"]


@pytest.mark.parametrize(
    ("language", "model"),
    [
        ("", DEFAULT_MODEL),
        ("english", DEFAULT_MODEL),
        ("simple", DEFAULT_MODEL),
        ("german", MULTILINGUAL_MODEL),
        ("polish", MULTILINGUAL_MODEL),
    ],
)
async def test_a_language_that_the_default_does_not_know_gets_a_model_that_does(
    both: Services, language: str, model: str
) -> None:
    settings = {"lexical": {"language": language}}
    created = await both.collections.create(ANYBODY, new(settings=settings))
    assert created.settings.embedding.model == model


async def test_a_model_that_is_named_counts_more_than_the_language(both: Services) -> None:
    settings = {"lexical": {"language": "german"}, "embedding": {"model": DEFAULT_MODEL}}
    created = await both.collections.create(ANYBODY, new(settings=settings))
    assert created.settings.embedding.model == DEFAULT_MODEL


async def test_a_collection_moves_to_another_model_and_takes_documents_meanwhile_and_after(
    both: Services, other: FaultyEmbedder, pool: Pool
) -> None:
    await both.collections.create(ANYBODY, new())
    await both.ingest(GivenDocument("first", uri="1"))
    request = pb.ReindexCollectionRequest(
        collection_id="docs", settings=settings_of({"embedding": {"model": other.model}})
    )
    begun = await both.reindex.begin(ANYBODY, request)
    written = await both.ingestion.ingest(ANYBODY, "docs", [GivenDocument("meanwhile", uri="2")], "")
    for job in (begun, written.job):
        ended, items = await both.ended(job)
        assert ended.state == job_pb2.JOB_STATE_DONE, items
    await both.ingest(GivenDocument("zuletzt", uri="3"))
    assert await vectors_of(pool, "docs") == [("first", 64), ("meanwhile", 64), ("zuletzt", 64)]
