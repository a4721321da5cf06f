"""Collections of several embedding models in one ingestor."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2
from groundline_database import Pool, acquire
from groundline_embedding import create_embedder
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL
from groundline_embedding.settings import DEFAULT_MODEL
from groundline_extraction.documents import GivenDocument
from groundline_tests.embedding.provider import Provider, serving, settings_for
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


async def test_each_collection_has_its_own_model(both: Services, other: FaultyEmbedder, pool: Pool) -> None:
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


async def test_a_text_of_two_models_is_kept_apart(both: Services, other: FaultyEmbedder, pool: Pool) -> None:
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
async def test_a_language_gets_a_model_that_knows_it(both: Services, language: str, model: str) -> None:
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


# --- vectors that depend on neighbours ---

SENTENCES: dict[str, Any] = {
    "chunking": {"strategy": "CHUNKING_STRATEGY_SENTENCES", "chunkSize": 50, "chunkOverlap": 0},
    "embedding": {"model": "voyage-context-3"},
}
LEASE = "A lease runs out after nine seconds."
TEXT = f"{LEASE} It is renewed every three seconds. A replica that lost it stops."


@pytest.fixture
async def contextual(start: Start) -> AsyncIterator[tuple[Services, Provider]]:
    """An ingestor with a model that reads the chunks of a document together, and its provider."""
    with serving("voyage-context") as provider:
        async with create_embedder(settings_for(provider)) as embedder:
            services = start(others=[embedder])
            await services.collections.create(ANYBODY, new(settings=SENTENCES))
            provider.requests.clear()
            yield services, provider


def inputs_of(provider: Provider) -> list[list[list[str]]]:
    """Return the chunks of each window of each request since the last look, without titles."""
    asked = [
        [[chunk.rpartition("\n\n")[2] for chunk in window] for window in request["inputs"]]
        for request in provider.requests
    ]
    provider.requests.clear()
    return asked


async def test_the_chunks_of_a_document_are_embedded_together_once(
    contextual: tuple[Services, Provider], pool: Pool
) -> None:
    services, provider = contextual
    [item] = await services.ingest(GivenDocument(TEXT, uri="a"))
    [[window]] = inputs_of(provider)
    assert " ".join(window) == TEXT
    assert len(window) == 3
    assert item.usage.embedding_tokens > 0

    # The same again, and the same in another index, asks nothing.
    [again] = await services.ingest(GivenDocument(TEXT, uri="a"))
    assert again.outcome == job_pb2.INGESTION_OUTCOME_UNCHANGED
    await services.collections.create(ANYBODY, new("copy", settings=SENTENCES))
    [copied] = await services.ingest(GivenDocument(TEXT, uri="a"), collection_id="copy")
    assert copied.outcome == job_pb2.INGESTION_OUTCOME_CREATED
    assert not copied.usage.embedding_tokens
    assert not inputs_of(provider)


async def test_a_changed_chunk_renews_its_window(contextual: tuple[Services, Provider], pool: Pool) -> None:
    services, provider = contextual
    await services.ingest(GivenDocument(TEXT, uri="a"), GivenDocument("Bread.", uri="b"))
    inputs_of(provider)
    changed = TEXT.replace("three", "four")
    await services.ingest(GivenDocument(changed, uri="a"), GivenDocument("Bread.", uri="b"))
    [[window]] = inputs_of(provider)
    assert " ".join(window) == changed
    # The chunk that is the same has another vector beside other chunks.
    async with acquire(pool) as connection:
        cached = await connection.fetch(
            "SELECT embedding::text FROM embedding_cache WHERE substring(content_hash FOR 32) IN ("
            "SELECT sha256(convert_to(context_annotation || E'\\n\\n' || original_text, 'UTF8')) FROM chunks "
            "WHERE original_text = $1)",
            LEASE,
        )
    assert len({row["embedding"] for row in cached}) == 2


async def test_vectors_go_with_their_document(contextual: tuple[Services, Provider], pool: Pool) -> None:
    services, _ = contextual
    kept = GivenDocument(f"{LEASE} Bread is baked until it is dark.", uri="b")
    gone, _ = await services.ingest(GivenDocument(TEXT, uri="a"), kept)
    await services.documents.delete(ANYBODY, "docs", gone.document_id)
    async with acquire(pool) as connection:
        assert await connection.fetchval("SELECT count(*) FROM embedding_cache") == 2
