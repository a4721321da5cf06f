"""Chunks that a new version of their document leaves as they were."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

import asyncio
import hashlib
import json
from array import array
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
from groundline_database import Connection

from groundline_indexing.chunks import CHUNK_COLUMNS
from groundline_indexing.partitions import chunk_table, copied_columns
from groundline_indexing.revisions.numbers import DIGEST_BYTES
from groundline_indexing.revisions.past import retire

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

_DIGEST: Final = f"S{DIGEST_BYTES}"

ROWS_AT_ONCE: Final = 100
"""Chunks of one statement, which enter the index of vectors again: far below its time limit."""


class CarriedChunks:
    """Chunks of documents that are being replaced: what is stored again stays, the rest goes into the
    past."""

    def __init__(self, partition_id: int, past: int) -> None:
        """Take the partition in use, and the one that takes what was replaced."""
        self._partition_id = partition_id
        self._past = past
        # Arrays: objects for each chunk of a long document would take 500 bytes.
        self._digests = np.empty(0, _DIGEST)
        """Digests of what the earlier chunks say, in order; equal ones in the order of the document."""
        self._chunk_ids = np.empty(0, np.int64)
        """Chunks by the places of their digests, as in the next two."""
        self._taken = np.empty(0, np.int32)
        """How many of those that say the same stay, at the place of the first."""
        self._is_gone = np.empty(0, np.bool_)
        self._staying = array("q")
        """Chunks that stay."""
        self._places = array("i")
        """New place of each, in three numbers."""

    async def read(self, connection: Connection, document_ids: Sequence[Any]) -> None:
        """Read the chunks of documents, in the transaction that replaces them."""
        digests, chunk_ids = bytearray(), array("q")
        rows = connection.cursor(
            f"""
            SELECT chunk_id, {", ".join(_SAID)} FROM {chunk_table(self._partition_id)}
            WHERE document_id = ANY($1::uuid[]) ORDER BY chunk_index
            """,
            document_ids,
            prefetch=ROWS_AT_ONCE,
        )
        async for chunk_id, *said in rows:
            digests += _digest(said)
            chunk_ids.append(chunk_id)
        if chunk_ids:
            await asyncio.to_thread(self._sort, digests, chunk_ids)

    def _sort(self, digests: bytearray, chunk_ids: "array[int]") -> None:
        unsorted = np.frombuffer(digests, _DIGEST)
        order = np.argsort(unsorted, kind="stable")
        self._digests, self._chunk_ids = unsorted[order], np.array(chunk_ids, np.int64)[order]
        self._taken, self._is_gone = np.zeros(len(order), np.int32), np.ones(len(order), np.bool_)

    def holds(self, record: tuple[Any, ...]) -> bool:
        """Tell whether a row of CHUNK_COLUMNS is stored already, and let that one stay in its place."""
        digest = _digest(_values(record))
        first = int(self._digests.searchsorted(digest))
        if first == len(self._digests):
            return False
        found = first + int(self._taken[first])
        # Without the zeros that end it, as numpy gives it.
        if found == len(self._digests) or self._digests[found] != digest.rstrip(b"\0"):
            return False
        self._taken[first] += 1
        self._is_gone[found] = False
        self._staying.append(int(self._chunk_ids[found]))
        self._places.extend(_place(record))
        return True

    async def settle(self, connection: Connection) -> None:
        """Move what does not stay into the past, and the rest to its new places, once the rows of the
        documents are the new ones."""
        gone = self._chunk_ids[self._is_gone]
        table, of_partition = chunk_table(self._partition_id), f"partition_id = {self._partition_id:d}"
        columns = await copied_columns(connection) if len(gone) else ()
        for begin in range(0, len(gone), ROWS_AT_ONCE):
            some = gone[begin : begin + ROWS_AT_ONCE].tolist()
            by_id = "c.chunk_id = ANY($1::bigint[])"
            await retire(connection, self._partition_id, self._past, by_id, some, columns=columns)
            await connection.execute(
                f"DELETE FROM {table} WHERE {of_partition} AND chunk_id = ANY($1::bigint[])", some
            )
        for begin in range(0, len(self._staying), ROWS_AT_ONCE):
            places = self._places[3 * begin : 3 * (begin + ROWS_AT_ONCE)]
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
                self._staying[begin : begin + ROWS_AT_ONCE],
                *(places[field::3] for field in range(3)),
            )


def _digest(said: Sequence[Any]) -> bytes:
    return hashlib.blake2b(
        json.dumps(said, sort_keys=True, default=str).encode(), digest_size=DIGEST_BYTES
    ).digest()
