"""Chunks that a new version of their document leaves as they were."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import batched
from operator import itemgetter
from typing import Any, Final

from groundline_database import Connection

from groundline_indexing.chunks import CHUNK_COLUMNS
from groundline_indexing.partitions import chunk_table, copied_columns
from groundline_indexing.revisions.past import retire

__all__ = ["CarriedChunks"]

# Columns that a search reads or shows of a chunk. Its place in the document may differ between revisions.
_SAID: Final = (
    "document_id",
    "original_text",
    "context_annotation",
    "lexical_text",
    "siblings_before",
    "siblings_after",
    "source_type",
    "metadata",
    "allowed_principals",
)
_values: Final = itemgetter(*(CHUNK_COLUMNS.index(name) for name in _SAID))
_place: Final = itemgetter(
    *(CHUNK_COLUMNS.index(name) for name in ("chunk_index", "start_offset", "end_offset"))
)

ROWS_AT_ONCE: Final = 100
"""Chunks of one statement, which enter the index of vectors again: far below its time limit."""


class CarriedChunks:
    """Chunks of documents that are being replaced: what is stored again stays, the rest goes into the
    past."""

    def __init__(self, partition_id: int, past: int) -> None:
        """Take the partition in use, and the one that takes what was replaced."""
        self._partition_id = partition_id
        self._past = past
        # A deque would take 760 bytes for each chunk of a long document.
        self._earlier: dict[bytes, list[int]] = defaultdict(list)
        """Chunks by what they say, the last first."""
        self._staying: list[tuple[int, ...]] = []
        """Chunks that stay, each with its new place."""

    async def read(self, connection: Connection, document_ids: Sequence[Any]) -> None:
        """Read the chunks of documents, in the transaction that replaces them."""
        rows = connection.cursor(
            f"""
            SELECT chunk_id, {", ".join(_SAID)} FROM {chunk_table(self._partition_id)}
            WHERE document_id = ANY($1::uuid[]) ORDER BY chunk_index DESC
            """,
            document_ids,
            prefetch=ROWS_AT_ONCE,
        )
        async for chunk_id, *said in rows:
            self._earlier[_digest(said)].append(chunk_id)

    def holds(self, record: tuple[Any, ...]) -> bool:
        """Tell whether a row of CHUNK_COLUMNS is stored already, and let that one stay in its place."""
        found = self._earlier.get(_digest(_values(record)))
        if not found:
            return False
        self._staying.append((found.pop(), *_place(record)))
        return True

    async def settle(self, connection: Connection) -> None:
        """Move what does not stay into the past, and the rest to its new places, once the rows of the
        documents are the new ones."""
        gone = [chunk_id for chunk_ids in self._earlier.values() for chunk_id in chunk_ids]
        table, of_partition = chunk_table(self._partition_id), f"partition_id = {self._partition_id:d}"
        columns = await copied_columns(connection) if gone else ()
        for some in batched(gone, ROWS_AT_ONCE):
            by_id = "c.chunk_id = ANY($1::bigint[])"
            await retire(connection, self._partition_id, self._past, by_id, some, columns=columns)
            await connection.execute(
                f"DELETE FROM {table} WHERE {of_partition} AND chunk_id = ANY($1::bigint[])", some
            )
        for staying in batched(self._staying, ROWS_AT_ONCE):
            await connection.execute(
                f"""
                UPDATE {table} c
                SET chunk_index = new.chunk_index, start_offset = new.start_offset,
                    end_offset = new.end_offset, valid_from = coalesce(c.valid_from, c.update_time),
                    update_time = d.update_time
                FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::integer[])
                    AS new (chunk_id, chunk_index, start_offset, end_offset), documents d
                WHERE c.{of_partition} AND c.chunk_id = new.chunk_id AND d.document_id = c.document_id
                """,
                *zip(*staying, strict=True),
            )


def _digest(said: Sequence[Any]) -> bytes:
    return hashlib.blake2b(json.dumps(said, sort_keys=True, default=str).encode(), digest_size=16).digest()
