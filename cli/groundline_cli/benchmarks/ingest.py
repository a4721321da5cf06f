"""What ingestion makes of a machine."""

import asyncio
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from itertools import batched
from pathlib import Path
from typing import Any, Final

import numpy as np
from groundline_embedding import EmbeddingSettings, create_embedder
from groundline_ingestor.__main__ import Stores, assemble, open_sandbox, stores_on, working
from groundline_ingestor.adapters.postgres import Pool, acquire, open_database
from groundline_ingestor.adapters.postgres_documents import CHUNK_COLUMNS
from groundline_ingestor.domain import (
    Chunk,
    Collection,
    DocumentInput,
    DocumentVersion,
    NewCollection,
    NewVersion,
    Section,
    SourceType,
    Stretch,
    Vectors,
)
from groundline_ingestor.migrate import migrate
from groundline_ingestor.service.preparation import identify
from groundline_ingestor.service.worker import Worker
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import LexicalIndex, detect_lexical_index
from pydantic import SecretStr

from groundline_cli.stack.postgres import EmbeddedPostgres

__all__ = ["measure"]

DIMENSIONS: Final = 384
WORDS: Final = 150
CHUNKS_PER_DOCUMENT: Final = 16
TRANSACTION_DOCUMENTS: Final = 4
CONNECTIONS: Final = 4
POLL_SECONDS: Final = 0.05
VOCABULARY: Final = 30_000
TOPICS: Final = 200

# Each text of the model's measurement is one chunk, as it is.
_UNCUT: Final = {
    "chunking": {"chunkSize": 20_000},
    "contextualization": {"mode": "CONTEXTUALIZATION_MODE_NONE"},
}

type Figures = dict[str, float]


async def measure(chunks: int, texts: int, document_mb: int, data_dir: Path | None) -> Figures:
    """All figures by name: chunks a second, ratios, MiB."""
    with tempfile.TemporaryDirectory() as temporary:
        async with EmbeddedPostgres(data_dir or Path(temporary)) as server:
            dsn = SecretStr(await server.create_database(f"bench_{uuid.uuid4().hex[:12]}"))
            await migrate(dsn)
            async with open_database(dsn, max_size=CONNECTIONS + 8) as pool:
                async with acquire(pool) as connection:
                    lexical = await detect_lexical_index(connection)
                figures = await _storing(pool, lexical, chunks)
                figures |= await _embedding(pool, lexical, dsn, texts)
    return figures | await _large_text(document_mb)


# --- storing, vectors given ---


async def _storing(pool: Pool, lexical: LexicalIndex, count: int) -> Figures:
    versions = list(_versions(count))
    floor = await _seconds(lambda: _copy_and_index(pool, lexical, versions))
    stores = stores_on(pool, lexical)
    collection = await stores.collections.create(
        NewCollection("bench", "bench", {}, "given", "english", (), (), ""), DIMENSIONS
    )
    ours = await _seconds(lambda: _store(stores, collection, versions))
    return {
        "copy_then_index_chunks_per_second": round(count / floor, 1),
        "store_chunks_per_second": round(count / ours, 1),
        "store_ratio": round(floor / ours, 3),
    }


async def _store(stores: Stores, collection: Collection, versions: Sequence[NewVersion]) -> None:
    batches = batched(versions, TRANSACTION_DOCUMENTS)

    async def connection() -> None:
        for batch in batches:
            await stores.documents.store(collection, batch)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(connection())


async def _copy_and_index(pool: Pool, lexical: LexicalIndex, versions: Sequence[NewVersion]) -> None:
    table, document, now = "bench_floor", uuid.uuid4(), datetime.now(UTC)
    rows: Iterator[tuple[Any, ...]] = (
        (
            1,
            document,
            index,
            chunk.section.text,
            "",
            chunk.lexical_text,
            vector,
            0,
            1,
            b"",
            "file",
            {},
            [],
            now,
        )
        for new in versions
        for index, (chunk, vector) in enumerate(zip(new.chunks, new.vectors, strict=True))
    )
    async with acquire(pool) as connection:
        await connection.execute(
            f"CREATE TABLE {table} (LIKE chunks INCLUDING DEFAULTS, PRIMARY KEY (chunk_id))"
        )
        await connection.copy_records_to_table(table, records=rows, columns=CHUNK_COLUMNS, timeout=3600)
        await connection.execute(
            f"CREATE INDEX ON {table} USING hnsw ((embedding::halfvec({DIMENSIONS})) halfvec_cosine_ops)",
            timeout=3600,
        )
        await connection.execute(f"CREATE INDEX ON {table} (document_id, chunk_index)", timeout=3600)
        await lexical.create_index(connection, table, "english")


def _versions(count: int) -> Iterator[NewVersion]:
    texts = _texts(count)
    vectors = _vectors(count)
    for number, places in enumerate(batched(range(count), CHUNKS_PER_DOCUMENT)):
        chunks = [Chunk(Section(texts[i], 0, len(texts[i])), "", texts[i]) for i in places]
        version = DocumentVersion(
            uri=f"document-{number}",
            source_type=SourceType.FILE,
            title=f"Document {number}",
            mime_type="text/plain",
            content_hash=number.to_bytes(32),
            input_hash=number.to_bytes(32),
            ingestion_hash=number.to_bytes(32),
            size_bytes=sum(len(chunk.section.text) for chunk in chunks),
            metadata={},
            allowed_principals=(),
        )
        text = Stretch("\n\n".join(chunk.section.text for chunk in chunks))
        yield NewVersion(version, chunks, vectors[places[0] : places[-1] + 1], [text])


# --- the whole way, with the local model ---


async def _embedding(pool: Pool, lexical: LexicalIndex, dsn: SecretStr, count: int) -> Figures:
    settings = IngestorSettings(database_url=dsn, embedding_cache_days=0)
    texts = _texts(count, seed=2)
    async with create_embedder(EmbeddingSettings()) as embedder, open_sandbox(settings) as sandbox:
        await embedder.embed_documents(texts[:16])
        alone = await _seconds(lambda: embedder.embed_documents(texts))
        stores = stores_on(pool, lexical)
        collection = await stores.collections.create(
            NewCollection("model", "model", _UNCUT, embedder.model, "english", (), (), ""),
            embedder.dimensions,
        )
        _, worker = assemble(settings, stores, embedder, sandbox)
        inputs = [DocumentInput(text, uri=f"{number}.txt") for number, text in enumerate(texts)]
        async with working(worker):
            ours = await _seconds(lambda: _ingest(stores, worker, collection, inputs))
        found = await stores.collections.find("model")
        assert found is not None
        assert found.chunk_count == count, "a chunk was lost or doubled"
    return {
        "model_alone_chunks_per_second": round(count / alone, 1),
        "ingest_chunks_per_second": round(count / ours, 1),
        "ingest_ratio": round(alone / ours, 3),
    }


async def _ingest(
    stores: Stores, worker: Worker, collection: Collection, inputs: Sequence[DocumentInput]
) -> None:
    job = await stores.jobs.enqueue(collection, [identify(given, collection) for given in inputs], "")
    worker.wake()
    while not job.has_ended:
        await asyncio.sleep(POLL_SECONDS)
        found = await stores.jobs.find(job.job_id)
        assert found is not None
        job = found


# --- a large text ---


async def _large_text(megabytes: int) -> Figures:
    """Peak memory of a process that extracts and cuts a text of so many MB."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "groundline_cli.benchmarks.large_text",
        str(megabytes),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the large text ended with exit code {process.returncode}")
    figures: Figures = json.loads(out)
    return figures


# --- what is measured with ---


async def _seconds(work: Callable[[], Coroutine[Any, Any, object]]) -> float:
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


def _texts(count: int, seed: int = 1) -> list[str]:
    """Texts of WORDS words, frequent ones as frequent as in a language."""
    random = np.random.default_rng(seed)
    places = np.minimum(random.zipf(1.2, (count, WORDS)), VOCABULARY) - 1
    return [" ".join(_VOCABULARY[place] for place in row) for row in places]


def _vectors(count: int) -> Vectors:
    """Unit vectors around some topics, as those of texts are."""
    random = np.random.default_rng(3)
    topics = random.normal(size=(TOPICS, DIMENSIONS))
    vectors = topics[random.integers(TOPICS, size=count)] + random.normal(size=(count, DIMENSIONS)) * 0.7
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    return unit


def _words() -> list[str]:
    random = np.random.default_rng(0)
    syllables = ["ka", "ro", "mi", "ten", "sul", "ver", "dan", "pol", "ing", "ous", "tra", "lem"]
    return ["".join(random.choice(syllables, random.integers(1, 5))) for _ in range(VOCABULARY)]


_VOCABULARY: Final = _words()
