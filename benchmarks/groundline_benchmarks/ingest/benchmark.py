"""Throughput of ingestion, each figure beside a reference from the same run."""

import asyncio
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from groundline.v1 import job_pb2
from groundline_database import Pool, acquire, keep_session, open_pool, register_vectors
from groundline_embedding import Embedders, EmbeddingSettings, create_embedder
from groundline_embedding.local import models
from groundline_embedding.local.embedder import batches_by_length
from groundline_extraction.documents import GivenDocument
from groundline_indexing.chunks import CHUNK_COLUMNS, Destination, chunk_records
from groundline_indexing.collections import StoredCollection
from groundline_indexing.imports.loading import import_files
from groundline_indexing.imports.records import ImportProgress
from groundline_indexing.partitions import chunk_table
from groundline_indexing.preparation import identify, open_sandbox
from groundline_indexing.vector_indexes import (
    LEAST_ROWS,
    VectorIndexes,
    vector_index_on,
)
from groundline_ingestor.__main__ import wire_on, working
from groundline_ingestor.adapters.postgres.stores import stores_on
from groundline_ingestor.domain.jobs import has_ended
from groundline_ingestor.domain.work import NewVersion
from groundline_ingestor.migrate import migrate
from groundline_ingestor.settings import IngestorSettings, MigrationSettings
from groundline_lexical import LexicalIndex, detect_lexical_index
from groundline_runtime.paging import PageTokens
from pydantic import SecretStr

from groundline_benchmarks.ingest.corpus import (
    GivenVectors,
    documents,
    large_text,
    texts_of_words,
)
from groundline_benchmarks.ingest.storing import create_collection, seconds_of, store
from groundline_benchmarks.measuring.databases import Databases, database_server
from groundline_benchmarks.measuring.running import MeasurementError, Report
from groundline_benchmarks.measuring.suite import working_directory
from groundline_benchmarks.measuring.texts import DIMENSIONS

POOL_SIZE: Final = 10
"""Connections of the pool, as many as an ingestor's."""

POLL_SECONDS: Final = 0.25
"""Time between two looks at a job, in seconds, as often as progress is stored; each takes PostgreSQL more
than a millisecond."""

PATIENCE_SECONDS: Final = 3600.0
IMPORT_PROCESSES: Final = (1, 2, 4)
LIVE_SHARE: Final = 10
"""Chunks of which one is added once the index of vectors exists."""

# Each text is one chunk, as it is.
_UNCUT: Final = {
    "chunking": {"chunkSize": 20_000},
    "contextualization": {"mode": "CONTEXTUALIZATION_MODE_NONE"},
}
# Each paragraph is one chunk.
_PARAGRAPHS: Final = {"chunking": {"chunkSize": 1200, "chunkOverlap": 0}}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Amounts to measure with; 0 leaves a part out."""

    chunks: int
    texts: int
    document_mib: int


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure and its reference, if any; both in `unit`."""

    name: str
    figure: float
    unit: str
    beside: str = ""
    reference: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.reference is None else round(self.figure / self.reference, 3)


async def measure(
    sizes: Sizes, data_dir: Path | None, database_url: str | None, report: Report
) -> list[Measure]:
    """Measure the parts that the sizes ask for, on the server of a URL or one of its own; `report` gets each
    step."""
    with working_directory(data_dir) as directory:
        async with database_server(database_url, directory) as databases:
            return await measure_on(databases, sizes, report)


async def measure_on(databases: Databases, sizes: Sizes, report: Report) -> list[Measure]:
    """Measure in a database that is dropped afterwards."""
    async with databases() as url:
        settings = MigrationSettings(database_url=SecretStr(url), pool_max_size=POOL_SIZE)
        await migrate(settings)
        async with open_pool(settings, init=register_vectors, reset=keep_session) as pool:
            async with acquire(pool) as connection:
                lexical = await detect_lexical_index(connection)
            bench = _Bench(pool, lexical, settings.database_url, report)
            measures = []
            if sizes.chunks:
                measures += await bench.storing(sizes.chunks)
            if sizes.texts:
                measures += await bench.model(sizes.texts)
            if sizes.document_mib:
                measures += await bench.large_document(sizes.document_mib)
            return measures


class _Bench:
    def __init__(self, pool: Pool, lexical: LexicalIndex, dsn: SecretStr, report: Report) -> None:
        self._pool = pool
        self._lexical = lexical
        self._dsn = dsn
        self._report = report
        self._stores = stores_on(pool, lexical)

    # --- vectors given ---

    async def storing(self, count: int) -> list[Measure]:
        embedder = GivenVectors()
        rows = documents(count, embedder, seed=1, prefix="first")
        more = documents(max(count // LIVE_SHARE, 1), embedder, seed=2, prefix="more")
        added = max(count // LIVE_SHARE, 1)
        indexes = VectorIndexes(self._pool, least_rows=min(LEAST_ROWS, count))

        self._report(f"COPY of {count} chunks and building the indexes")
        floor = _Floor(self._pool, self._lexical)
        copied = await seconds_of(lambda: floor.copy(rows))
        built = await seconds_of(floor.build_indexes)
        self._report(f"COPY of {added} chunks into live indexes")
        copied_live = await seconds_of(lambda: floor.copy(more))
        await floor.drop()

        self._report(f"storing {count} chunks")
        collection = await self._collection("storing", GivenVectors.model)
        stored = await seconds_of(lambda: store(self._stores, collection, rows))
        indexed = await seconds_of(indexes.build_due)
        await self._require(collection, count, indexed=True)
        self._report(f"storing {added} chunks into live indexes")
        stored_live = await seconds_of(lambda: store(self._stores, collection, more))
        await self._require(collection, count + added, indexed=True)
        await self._stores.collections.delete("storing")

        imported = await self._import(rows)

        self._report(f"ingesting {count} chunks, from hand-in to both indexes")
        ingested, ready = await self._ingest_given(rows, embedder)

        raw, unit = count / (copied + built), "chunks/s"
        beside = "one COPY of the same rows, then both indexes built"
        return [
            Measure("stored, both indexes ready", count / (stored + indexed), unit, beside, raw),
            Measure("stored, searchable (vectors exactly)", count / stored, unit, beside, raw),
            Measure("stored into live indexes", added / stored_live, unit,
                    "COPY of the same rows into live indexes", added / copied_live),
            *(
                Measure(f"imported by {processes}, {name}", count / seconds, unit, beside, raw)
                for processes, (loaded, ready_all) in imported.items()
                for name, seconds in (("loaded", loaded), ("both indexes ready", ready_all))
            ),
            Measure("ingested, both indexes ready", ready, unit, beside, raw),
            Measure("ingested, searchable (vectors exactly)", ingested, unit, beside, raw),
        ]  # fmt: skip

    async def _import(self, rows: Sequence[NewVersion]) -> Mapping[int, tuple[float, float]]:
        """Import by each number of processes; return the seconds until all were loaded, and until they were
        searched."""
        seconds: dict[int, tuple[float, float]] = {}
        settings = IngestorSettings(database_url=self._dsn)
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            await asyncio.to_thread(_write_records, file, rows)
            for processes in IMPORT_PROCESSES:
                self._report(f"importing them by {processes} processes")
                name = f"imported-{processes}"
                collection = await self._collection(name, GivenVectors.model)
                begun, loaded = time.perf_counter(), 0.0

                def on_progress(progress: ImportProgress) -> None:
                    nonlocal loaded
                    if progress.stage == "loading":
                        loaded = time.perf_counter()

                result = await import_files(
                    settings, name, [Path(file.name)], processes=processes, on_progress=on_progress
                )
                seconds[processes] = loaded - begun, time.perf_counter() - begun
                if result.chunk_count != sum(len(new.chunks) for new in rows):
                    raise MeasurementError("a chunk was lost or doubled")
                await self._stores.collections.delete(collection.collection_id)
        return seconds

    async def _ingest_given(self, rows: Sequence[NewVersion], embedder: GivenVectors) -> tuple[float, float]:
        """Return chunks per second through queue, extraction, chunking, caches and storing: until all were
        searchable, and until the index of vectors existed as well."""
        collection = await self._collection("given", embedder.model, _PARAGRAPHS)
        inputs = [
            GivenDocument("".join(segment.text for segment in new.segments), uri=new.version.uri)
            for new in rows
        ]
        settings = IngestorSettings(database_url=self._dsn)
        async with open_sandbox(settings) as sandbox:
            _, worker = wire_on(settings, self._stores, Embedders([embedder]), sandbox, PageTokens(bytes(32)))
            begun = time.perf_counter()
            async with working(worker, settings):
                await self._work_off(collection, inputs, worker.wake)
                searchable = time.perf_counter() - begun
                found = await self._stores.collections.find("given")
                assert found is not None, "nobody deletes it"
                if found.message.chunk_count >= LEAST_ROWS:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        # Of the partition of its own that it was given meanwhile.
                        while not await self._has_index(found):  # noqa: ASYNC110 - nobody tells
                            await asyncio.sleep(POLL_SECONDS)
                ready = time.perf_counter() - begun
        await self._stores.collections.delete("given")
        return found.message.chunk_count / searchable, found.message.chunk_count / ready

    # --- the local model ---

    async def model(self, count: int) -> list[Measure]:
        settings = IngestorSettings(database_url=self._dsn, embedding_cache_days=0)
        async with create_embedder(EmbeddingSettings()) as embedder, open_sandbox(settings) as sandbox:
            bare = _BareModel(EmbeddingSettings())
            inputs = texts_of_words(bare.words(), count, seed=5)
            batches = bare.batches(inputs)
            await embedder.embed_documents(inputs[:16])
            bare.run(batches[:4])

            # Before and after, since other work on the machine would count for one side only.
            self._report(f"the model alone on {count} texts")
            alone = await seconds_of(lambda: asyncio.to_thread(bare.run, batches))
            self._report(f"ingesting {count} texts with the model")
            collection = await self._collection("model", embedder.model)
            _, worker = wire_on(settings, self._stores, Embedders([embedder]), sandbox, PageTokens(bytes(32)))
            given = [GivenDocument(text, uri=f"{number}.txt") for number, text in enumerate(inputs)]
            async with working(worker, settings):
                ours = await seconds_of(lambda: self._work_off(collection, given, worker.wake))
            await self._require(collection, count, indexed=None)
            self._report(f"the model alone on {count} texts, again")
            alone = (alone + await seconds_of(lambda: asyncio.to_thread(bare.run, batches))) / 2
        await self._stores.collections.delete("model")
        beside = f"onnxruntime alone, {bare.threads} batches at a time, the same tokens by length"
        return [Measure("ingested with local MiniLM", count / ours, "chunks/s", beside, count / alone)]

    # --- a large document ---

    async def large_document(self, mebibytes: int) -> list[Measure]:
        """Measure the peak memory of a process that does a job with one text of this size, vectors given."""
        self._report(f"ingesting a text of {mebibytes} MiB")
        text = large_text(mebibytes)
        collection = await self._collection("large", GivenVectors.model, settings={})
        job = await self._hand_in(collection, [GivenDocument(text, uri="large.txt")])
        del text
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "groundline_benchmarks.ingest.large_document",
            job.job_id,
            stdout=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "GROUNDLINE_INGESTOR_DATABASE_URL": self._dsn.get_secret_value(),
                "GROUNDLINE_INGESTOR_MAX_DOCUMENT_BYTES": str(2**30),
                "GROUNDLINE_INGESTOR_MAX_CHUNKS_PER_DOCUMENT": "10000000",
            },
        )
        out, _ = await process.communicate()
        if process.returncode:
            raise MeasurementError(f"the process with the large text ended with code {process.returncode}")
        await self._require_done(job)
        figures: Mapping[str, float] = json.loads(out)
        found = await self._stores.collections.find("large")
        assert found is not None
        await self._stores.collections.delete("large")
        return [
            Measure(f"peak RSS, a text of {mebibytes} MiB", figures["peak_rss_mib"], "MiB", "before the job",
                    figures["rss_before_mib"]),
            Measure(f"ingested, a text of {mebibytes} MiB", found.message.chunk_count / figures["seconds"],
                    "chunks/s"),
        ]  # fmt: skip

    # --- what they share ---

    async def _collection(
        self, name: str, model: str, settings: Mapping[str, Any] = _UNCUT
    ) -> StoredCollection:
        return await create_collection(self._stores, name, model, settings)

    async def _hand_in(
        self, collection: StoredCollection, inputs: Sequence[GivenDocument]
    ) -> job_pb2.IngestionJob:
        return await self._stores.jobs.enqueue(
            collection, [identify(given, collection) for given in inputs], (), ""
        )

    async def _work_off(
        self, collection: StoredCollection, inputs: Sequence[GivenDocument], wake: Callable[[], None]
    ) -> None:
        job = await self._hand_in(collection, inputs)
        wake()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = await self._stores.jobs.find(job.job_id)
                if found is None or has_ended(found):
                    break
                await asyncio.sleep(POLL_SECONDS)
        await self._require_done(job)

    async def _require_done(self, job: job_pb2.IngestionJob) -> None:
        found = await self._stores.jobs.find(job.job_id)
        if found is None or found.state != job_pb2.JOB_STATE_DONE:
            state = job_pb2.JobState.Name(found.state) if found else "it is gone"
            raise MeasurementError(f"the job did not end well: {state}")

    async def _has_index(self, collection: StoredCollection) -> bool:
        async with acquire(self._pool) as connection:
            return bool(
                await connection.fetchval(
                    "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)",
                    f"{chunk_table(collection.partition_id)}_embedding",
                )
            )

    async def _require(self, collection: StoredCollection, count: int, *, indexed: bool | None) -> None:
        found = await self._stores.collections.find(collection.collection_id)
        if found is None or found.message.chunk_count != count:
            raise MeasurementError("a chunk was lost or doubled")
        if indexed is not None and indexed != await self._has_index(found):
            raise MeasurementError("the index of vectors is not as it should be")


class _Floor:
    """PostgreSQL's own speed with the same rows, without other work."""

    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
        self._pool = pool
        self._lexical = lexical
        self._is_made = False

    async def copy(self, rows: Sequence[NewVersion]) -> None:
        async with acquire(self._pool) as connection:
            if not self._is_made:
                await connection.execute(
                    "CREATE TABLE floor "
                    "(LIKE chunks INCLUDING DEFAULTS INCLUDING STORAGE, PRIMARY KEY (partition_id, chunk_id))"
                )
                self._is_made = True
            await connection.copy_records_to_table(
                "floor", records=_records(rows), columns=CHUNK_COLUMNS, timeout=PATIENCE_SECONDS
            )

    async def build_indexes(self) -> None:
        async with acquire(self._pool) as connection:
            await connection.execute(
                f"CREATE INDEX {vector_index_on('floor', DIMENSIONS)}",
                timeout=PATIENCE_SECONDS,
            )
            await connection.execute("CREATE INDEX ON floor (document_id, chunk_index)")
            await self._lexical.create_index(connection, "floor", "english")

    async def drop(self) -> None:
        async with acquire(self._pool) as connection:
            await connection.execute("DROP TABLE floor")


def _write_records(file: IO[str], rows: Sequence[NewVersion]) -> None:
    """Write records as `groundline import` reads them."""
    for new in rows:
        chunks = [
            {"text": chunk.section.text, "vector": [round(float(value), 4) for value in vector]}
            for chunk, vector in zip(new.chunks, new.vectors, strict=True)
        ]
        file.write(f"{json.dumps({'uri': new.version.uri, 'chunks': chunks})}\n")
    file.flush()


def _records(rows: Sequence[NewVersion]) -> Iterator[tuple[Any, ...]]:
    document = {"document_id": uuid.uuid4(), "update_time": datetime.now(UTC)}
    into = Destination(1, "floor", "english")
    return (record for new in rows for record in chunk_records(into, new, document))


class _BareModel:
    """onnxruntime alone, with the embedder's model, options and tokenizer: a batch for each thread, as the
    embedder does it, which is faster than all threads for each batch."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self.threads = settings.threads or len(os.sched_getaffinity(0))
        loaded = models.load(settings, 1)
        self._session = loaded.session
        self._tokenizer = loaded.tokenizer
        self._batch_size = settings.batch_size
        self._inputs = {entry.name for entry in self._session.get_inputs()}

    def words(self) -> list[str]:
        """Return whole words of its vocabulary."""
        return sorted(word for word in self._tokenizer.get_vocab() if word.isalpha() and len(word) > 3)

    def batches(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return the tokens of all texts, in the batches that the embedder would make of all at once."""
        lengths = [sum(self._tokenizer.encode(text).attention_mask) for text in texts]
        made = []
        for positions in batches_by_length(lengths, self._batch_size):
            encoded = self._tokenizer.encode_batch([texts[position] for position in positions])
            if any(one.overflowing for one in encoded):
                raise MeasurementError("a text is too long to be read whole: the embedder would do more")
            tokens = {
                "input_ids": np.array([one.ids for one in encoded], np.int64),
                "attention_mask": np.array([one.attention_mask for one in encoded], np.int64),
                "token_type_ids": np.array([one.type_ids for one in encoded], np.int64),
            }
            made.append({name: value for name, value in tokens.items() if name in self._inputs})
        return made

    def run(self, batches: Sequence[dict[str, Any]]) -> None:
        with ThreadPoolExecutor(self.threads) as executor:
            for _ in executor.map(lambda batch: self._session.run(None, batch), batches):
                pass
