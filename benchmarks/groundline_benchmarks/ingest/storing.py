"""Storing of documents whose vectors are given, as workers do it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import batched
from typing import Any

from google.protobuf import json_format
from groundline.v1 import collection_pb2
from groundline_indexing.collections import EVERYONE, StoredCollection
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.work import NewVersion
from groundline_ingestor.service.worker.pipeline import STORING_CONNECTIONS, TRANSACTION_CHUNKS

from groundline_benchmarks.ingest.corpus import CHUNKS_PER_DOCUMENT
from groundline_benchmarks.measuring.texts import DIMENSIONS


async def create_collection(
    stores: Stores, name: str, model: str, settings: Mapping[str, Any]
) -> StoredCollection:
    """Create a collection that everyone may use; `settings` are those beside model, language and access."""
    new = collection_pb2.Collection(collection_id=name, name=name)
    json_format.ParseDict(dict(settings), new.settings)
    new.settings.embedding.model, new.settings.embedding.dimensions = model, DIMENSIONS
    new.settings.lexical.language = "english"
    everyone = [EVERYONE]
    new.settings.access.CopyFrom(
        collection_pb2.AccessSettings(readers=everyone, writers=everyone, admins=everyone)
    )
    return await stores.collections.create(new, "", "")


async def store(stores: Stores, collection: StoredCollection, rows: Sequence[NewVersion]) -> None:
    """Store in concurrent transactions of a number of chunks."""
    batches = batched(rows, max(TRANSACTION_CHUNKS // CHUNKS_PER_DOCUMENT, 1))

    async def connection() -> None:
        for batch in batches:
            await stores.versions.store(collection, batch)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(STORING_CONNECTIONS):
            tasks.create_task(connection())


async def seconds_of(work: Callable[[], Coroutine[Any, Any, object]]) -> float:
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun
