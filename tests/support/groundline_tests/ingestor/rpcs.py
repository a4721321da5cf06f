"""Requests to the port of an ingestor."""

from typing import Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import collection_pb2, document_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_lexical import LexicalIndex
from pgvector import HalfVector

from groundline_tests.embedding import FakeEmbedder
from groundline_tests.ingestor.messages import EVERYONES_ACCESS, settings_of

EMBEDDER = FakeEmbedder()
ANN = (("x-groundline-principals", "user:ann"),)
BOB = (("x-groundline-principals", "user:bob"),)


def everyones() -> collection_pb2.CollectionSettings:
    """Return the request of a collection that callers without principals may use."""
    return settings_of({"access": EVERYONES_ACCESS})


def document(uri: str, text: str, **fields: Any) -> document_pb2.DocumentInput:
    return json_format.ParseDict({"uri": uri, "text": text, **fields}, document_pb2.DocumentInput())


async def ingest(
    stub: Any, collection_id: str, *documents: document_pb2.DocumentInput, **options: Any
) -> Any:
    """Hand in as Ann, and wait; the job that has ended, with its items."""
    request = pb.IngestDocumentsRequest(collection_id=collection_id, documents=documents, **options)
    return await ended(stub, (await stub.IngestDocuments(request, metadata=ANN)).job.job_id)


async def ended(stub: Any, job_id: str, caller: Any = ANN) -> Any:
    """Return the job and its items as the caller sees them, when it has ended."""
    async for _ in stub.WatchJob(pb.WatchJobRequest(job_id=job_id), metadata=caller):
        pass
    return await stub.GetJob(pb.GetJobRequest(job_id=job_id, page_size=1000), metadata=caller)


def condition(**fields: Any) -> Struct:
    struct = Struct()
    struct.update({name.replace("_", "$", 1): value for name, value in fields.items()})
    return struct


async def search(
    pool: Pool, lexical: LexicalIndex, collection_id: str, query: str
) -> tuple[set[str], set[str]]:
    """Return texts that BM25 finds, and the nearest ones that the vector index finds."""
    async with acquire(pool) as connection:
        row = await connection.fetchrow(
            """
            SELECT partition_id, p.language FROM collections JOIN chunk_partitions p USING (partition_id)
            WHERE collections.collection_id = $1
            """,
            collection_id,
        )
        assert row is not None
        partition, language = row
        table = f"chunks_p{partition}"
        by_words = await connection.fetch(
            lexical.search_sql(table, language, limit=10, columns="original_text"),
            lexical.prepare_query(query, language),
        )
        vector = HalfVector(await EMBEDDER.embed_query(query))
        by_vector = await connection.fetch(
            f"SELECT original_text FROM {table} "
            f"ORDER BY (embedding::halfvec({EMBEDDER.dimensions})) <=> $1 LIMIT 10",
            vector,
        )
    return {row["original_text"] for row in by_words}, {row["original_text"] for row in by_vector}
