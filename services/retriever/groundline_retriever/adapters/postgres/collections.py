"""Collections that a caller may read, as a search needs them."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import asyncpg
from cachetools import LRUCache
from google.protobuf import json_format
from groundline.v1 import collection_pb2, options_pb2
from groundline_database import (
    WRITTEN_POSITION,
    Connection,
    is_readable_collection,
    is_readable_document,
    read_statements,
)

from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.adapters.postgres.sizes import REMEMBERED_PARTITIONS
from groundline_retriever.domain import IndexedCollection

PARTITION_COLUMNS: Final[Mapping[int, str]] = {
    options_pb2.INDEX_CHOICE_CURRENT: "partition_id",
    options_pb2.INDEX_CHOICE_CANDIDATE: "candidate_partition_id",
    options_pb2.INDEX_CHOICE_PREVIOUS: "previous_partition_id",
}
"""Columns of `collections` with the partition of each index."""

_SQL: Final = {
    choice: read_statements(
        __name__,
        is_readable=is_readable_collection("$1", "c"),
        is_readable_document=is_readable_document("$1", "d"),
        index=column,
    )
    for choice, column in PARTITION_COLUMNS.items()
}
_WRITTEN: Final = f"SELECT {WRITTEN_POSITION}"


class ReadableCollections:
    """Readable collections; with standbys, each with a position of the primary at which it was as read."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._seen: LRUCache[str, tuple[int, int]] = LRUCache(REMEMBERED_PARTITIONS)
        """Last version of a collection, and the primary's position when it was first read."""

    async def readable(
        self,
        collection_ids: Sequence[str],
        principals: Sequence[str],
        index: options_pb2.IndexChoice.ValueType = options_pb2.INDEX_CHOICE_CURRENT,
    ) -> Sequence[IndexedCollection]:
        """See ChunkStore.collections."""
        async with self._reads.connection() as connection:
            if collection_ids:
                rows = await connection.fetch(_SQL[index]["readable_named"], principals, collection_ids)
            else:
                rows = await connection.fetch(_SQL[index]["readable_all"], principals)
            positions = await self._positions_of(connection, rows)
        return [
            IndexedCollection(
                collection_id=row["collection_id"],
                version=row["xmin"],
                partition_id=row["partition_id"],
                is_shared=row["is_shared"],
                embedding_model=row["embedding_model"],
                dimensions=row["dimensions"],
                language=row["language"],
                lexical_backend=row["lexical_backend"],
                is_quantized=row["is_quantized"],
                settings=_settings(row["settings"]),
                hides_documents=row["hides_documents"],
                position=positions.get(row["collection_id"], 0),
            )
            for row in rows
        ]

    async def _positions_of(
        self, connection: Connection, rows: Sequence["asyncpg.Record"]
    ) -> Mapping[str, int]:
        """Return, by collection, a position at which it is as its row says; empty if nobody needs it."""
        if not self._reads.has_standbys:
            return {}
        found: dict[str, int] = {}
        for row in rows:
            version, position = self._seen.get(row["collection_id"], (None, 0))
            if version == row["xmin"]:
                found[row["collection_id"]] = position
        if len(found) < len(rows):
            written = await connection.fetchval(_WRITTEN)
            new = {row["collection_id"]: row["xmin"] for row in rows if row["collection_id"] not in found}
            self._seen.update({name: (version, written) for name, version in new.items()})
            found |= dict.fromkeys(new, written)
        return found


@lru_cache(maxsize=256)
def _settings(stored: str) -> collection_pb2.CollectionSettings:
    """Read a collection's defaults and limits; what a newer release added is not for this one."""
    return json_format.Parse(stored, collection_pb2.CollectionSettings(), ignore_unknown_fields=True)
