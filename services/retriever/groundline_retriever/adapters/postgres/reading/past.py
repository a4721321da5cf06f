"""Earlier times: the partitions that may hold what was current then, and chunks as they stood."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import batched
from typing import Final

import asyncpg
from cachetools import LRUCache
from groundline_database import Connection, is_readable_collection, is_readable_document
from groundline_runtime.errors import FieldViolation, InvalidArgumentError

from groundline_retriever.adapters.postgres.indexes import PARTITIONS_PER_STATEMENT, union
from groundline_retriever.adapters.postgres.reading.chunks import ReadableChunks, chunks_around, found_chunks
from groundline_retriever.adapters.postgres.reads import Reads, collection_changed
from groundline_retriever.adapters.postgres.sizes import REMEMBERED_PARTITIONS
from groundline_retriever.domain import IndexedCollection
from groundline_retriever.passages import FetchedChunk, Wanted

COLLECTIONS_PER_STATEMENT: Final = 10

ATTEMPTS: Final = 3
"""Times that a collection's partitions are asked for their chunks, if others begin or are dropped."""

# How far back what a collection keeps reaches, with its partitions of the past, the newest last; and whether
# the partition in use and the newest that is known may hold what was current.
_REACH: Final = """
    SELECT c.collection_id, now() AS now, ARRAY(
            SELECT partition_id FROM past_partitions s WHERE s.collection_id = c.collection_id
            ORDER BY partition_id
        ) AS past,
        ARRAY({held})::bigint[] AS held,
        CASE WHEN c.history_since IS NULL THEN NULL
            WHEN (c.settings -> 'history' ->> 'everything')::boolean THEN c.history_since
            ELSE greatest(c.history_since, now() - make_interval(
                days => coalesce((c.settings -> 'history' ->> 'days')::integer, 0)
            ))
        END AS since
    FROM collections c WHERE c.collection_id = ANY ($1::text[])
"""

# By its indexes on both columns.
_BOUNDS: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, (SELECT min(valid_from) FROM {table}) AS begins,
        (SELECT max(valid_to) FROM {table}) AS ends
"""

_HOLDS: Final = """
    SELECT {partition_id:d}::bigint AS partition_id WHERE (SELECT min(valid_from) FROM {table}) <= $2
        AND (SELECT max(valid_to) FROM {table}) > $2
"""

# Not EXISTS: for a time that may be any, the planner reads all rows.
_IS_OLD: Final = """
    SELECT {partition_id:d}::bigint AS partition_id
    WHERE (SELECT min(coalesce(valid_from, update_time)) FROM {table}) <= $2
"""

_NONE_KNOWN: Final = "SELECT NULL WHERE $2::timestamptz IS NULL"

_THEN: Final = "coalesce(c.valid_from, c.update_time) <= $4 AND (c.valid_to IS NULL OR c.valid_to > $4)"

# Chunks of documents that have changed since then. A revision that is in use again has no row of its own.
# Whoever may not read a document now may not read its past, and whoever was let in later sees nothing from
# before. Each step is by a key: without OFFSET the planner reads all that was current then, as it takes a
# revision for a thousand chunks.
_FETCH: Final = """
    SELECT wanted.chunk_id AS wanted_id, d.version,
        CASE WHEN {with_vectors} AND c.chunk_id = wanted.chunk_id THEN c.embedding::real[] END,
        NULL::bytea[] AS lines,
        c.chunk_id, d.collection_id, c.document_id, listed.place - 1, c.original_text, c.context_annotation,
        d.title, d.uri, c.source_type, d.mime_type,
        listed.start_offset, listed.start_offset + c.end_offset - c.start_offset,
        c.metadata::text, d.valid_from, d.has_original, d.revision
    FROM unnest($2::bigint[]) AS asked (chunk_id)
    CROSS JOIN LATERAL (
        SELECT * FROM chunks c
        WHERE c.partition_id IN ({partitions}) AND c.chunk_id = asked.chunk_id AND {then} OFFSET 0
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT d.collection_id, d.uri, k.xmin AS version, p.valid_from, p.revision, p.chunk_ids, p.starts,
            coalesce(r.title, d.title) AS title, coalesce(r.mime_type, d.mime_type) AS mime_type,
            CASE WHEN r.revision IS NULL THEN d.has_original ELSE EXISTS (
                SELECT FROM revision_originals o
                WHERE (o.document_id, o.content_hash, o.part) = (r.document_id, r.content_hash, 0)
            ) END AS has_original
        FROM documents d
        JOIN collections k ON k.collection_id = d.collection_id
        JOIN past_revisions p ON p.document_id = d.document_id AND p.valid_from <= $4 AND p.valid_to > $4
        LEFT JOIN document_revisions r ON (r.document_id, r.revision) = (p.document_id, p.revision)
        WHERE d.document_id = wanted.document_id AND d.collection_id = ANY ($3::text[])
            AND d.update_time > $4 AND {readable_document} AND {readable} OFFSET 0
    ) AS d
    CROSS JOIN LATERAL (SELECT array_position(d.chunk_ids, wanted.chunk_id) AS place) AS found
    CROSS JOIN LATERAL (
        SELECT place, d.chunk_ids[place] AS chunk_id, d.starts[place] AS start_offset
        FROM generate_series(
            greatest(found.place - {before}, 1), least(found.place + {after}, cardinality(d.chunk_ids))
        ) AS place
    ) AS listed
    CROSS JOIN LATERAL (
        SELECT * FROM chunks c
        WHERE c.partition_id IN ({partitions}) AND c.chunk_id = listed.chunk_id AND {then} AND {visible}
        OFFSET 0
    ) AS c
"""


type _Bounds = tuple[datetime | None, datetime | None]
"""Time when the first of a partition's chunks began to be current, and when the last ceased to be; None for
an empty one."""


class SearchablePast:
    """Partitions and chunks of the past, of collections that keep it searchable."""

    def __init__(self, reads: Reads, chunks: ReadableChunks) -> None:
        self._reads = reads
        self._chunks = chunks
        self._past: LRUCache[str, Sequence[int]] = LRUCache(REMEMBERED_PARTITIONS)
        """Partitions of the past by collection, as they were found last, so that one statement asks the
        newest; it also tells whether they still are those."""
        self._bounds: LRUCache[int, _Bounds] = LRUCache(REMEMBERED_PARTITIONS)
        """Bounds of partitions behind which another one began: from then on chunks are only deleted there."""

    async def collections(
        self, collections: Sequence[IndexedCollection], as_of: datetime, *, are_named: bool
    ) -> Sequence[IndexedCollection]:
        """See ChunkStore.collections_as_of."""
        async with self._reads.connection() as connection:
            for _ in range(ATTEMPTS):
                rows = await self._reach(connection, collections, as_of)
                if rows is not None:
                    break
            else:
                raise collection_changed()
        reaching = {
            row["collection_id"]: row["past"] for row in rows if row["since"] and row["since"] <= as_of
        }
        _require_reach(rows, reaching, as_of, are_named=are_named)
        held = {partition_id for row in rows for partition_id in row["held"]}
        held |= {
            partition_id
            for past in reaching.values()
            for partition_id in past[:-1]
            if _may_hold(self._bounds.get(partition_id), as_of)
        }
        return [
            each
            if partition_id == each.partition_id
            else replace(each, partition_id=partition_id, in_use=each, is_shared=False)
            for each in collections
            if each.collection_id in reaching
            for partition_id in (each.partition_id, *reaching[each.collection_id])
            if partition_id in held
        ]

    async def _reach(
        self, connection: Connection, collections: Sequence[IndexedCollection], as_of: datetime
    ) -> "Sequence[asyncpg.Record] | None":
        """Return the rows of _REACH; None if the partitions were others than those that were known."""
        known = {each.collection_id: self._past.get(each.collection_id) for each in collections}
        # Most collections have no past.
        kept = [each for each in collections if known[each.collection_id]]
        groups = [list(group) for group in batched(kept, COLLECTIONS_PER_STATEMENT)] or [[]]
        asked = [[each.collection_id for each in group] for group in groups]
        asked[0] += [name for name, past in known.items() if not past]
        rows: list[asyncpg.Record] = []
        for group, ids in zip(groups, asked, strict=True):
            held = [
                _on(template, partition_id)
                for each in group
                for template, partition_id in (
                    (_IS_OLD, each.partition_id),
                    *((_HOLDS, newest) for newest in (known[each.collection_id] or ())[-1:]),
                )
            ]
            statement = _REACH.format(held=union(held) if held else _NONE_KNOWN)
            try:
                rows += await connection.fetch(statement, ids, as_of)
            except asyncpg.UndefinedTableError:
                for name in ids:
                    self._past.pop(name, None)
                return None
        found = {row["collection_id"]: row["past"] for row in rows}
        for name, past in found.items():
            if past:
                self._past[name] = past
            else:
                self._past.pop(name, None)
        if any(past != (known[name] or []) for name, past in found.items()):
            return None
        return rows if await self._read_bounds(connection, found.values()) else None

    async def _read_bounds(self, connection: Connection, pasts: Iterable[Sequence[int]]) -> bool:
        """Read the bounds that are not known, of partitions that are no longer written; return whether all
        are there."""
        unknown = [one for past in pasts for one in past[:-1] if one not in self._bounds]
        for some in batched(unknown, PARTITIONS_PER_STATEMENT):
            try:
                rows = await connection.fetch(union([_on(_BOUNDS, one) for one in some]))
            except asyncpg.UndefinedTableError:
                return False
            self._bounds.update({row["partition_id"]: (row["begins"], row["ends"]) for row in rows})
        return True

    async def fetch(
        self,
        wanted: Sequence[Wanted],
        principals: Sequence[str],
        as_of: datetime,
        searched: Sequence[IndexedCollection],
    ) -> Sequence[FetchedChunk]:
        """See ChunkStore.fetch_as_of."""
        in_use = {each.collection_id for each in searched if not each.is_past}
        present = [each for each in wanted if each.collection_id in in_use]
        found = list(await self._chunks.fetch(present, principals, as_of=as_of)) if present else []
        known = {each.chunk_id for each in found}
        partitions: dict[str, set[int]] = defaultdict(set)
        for one in searched:
            # A chunk that is replaced after it was found moves to the newest partition of the past.
            newest = self._past.get(one.collection_id, ())[-1:]
            partitions[one.collection_id] |= {one.partition_id, *newest}
        async with self._reads.connection() as connection:
            for each in wanted:
                missing = [chunk_id for chunk_id in each.chunk_ids if chunk_id not in known]
                if not missing:
                    continue
                before, after = chunks_around(each.with_parents, each.adjacent_chunks)
                statement = _FETCH.format(
                    with_vectors="true" if each.with_vectors else "false",
                    before=before,
                    after=after,
                    partitions=", ".join(f"{number:d}" for number in sorted(partitions[each.collection_id])),
                    then=_THEN,
                    visible=is_readable_document("$1", "c"),
                    readable_document=is_readable_document("$1", "d"),
                    readable=is_readable_collection("$1", "k"),
                )
                rows = await connection.fetch(statement, principals, missing, [each.collection_id], as_of)
                found += found_chunks(rows)
        return found


def _on(template: str, partition_id: int) -> str:
    return template.format(partition_id=partition_id, table=f"chunks_p{partition_id:d}")


def _may_hold(bounds: _Bounds | None, as_of: datetime) -> bool:
    """Tell whether chunks of a partition may have been current at a time."""
    if bounds is None:
        return True
    begins, ends = bounds
    return begins is not None and ends is not None and begins <= as_of < ends


def _require_reach(
    rows: "Iterable[asyncpg.Record]", reaching: Collection[str], as_of: datetime, *, are_named: bool
) -> None:
    """Raise InvalidArgumentError (as_of) unless the past of the collections reaches back to a time: of all
    that are named, or of any."""
    for row in rows:
        if as_of > row["now"]:
            raise _wrong("is in the future")
        if are_named and row["collection_id"] not in reaching:
            name, since = row["collection_id"], row["since"]
            if since is None:
                raise _wrong(f"needs settings.history.searchable, which {name} does not have")
            raise _wrong(f"is before {since.isoformat()}, when the searchable past of {name} begins")
    if not reaching:
        raise _wrong("is in the searchable past of no collection that you may read")


def _wrong(description: str) -> InvalidArgumentError:
    return InvalidArgumentError([FieldViolation("as_of", description)])
