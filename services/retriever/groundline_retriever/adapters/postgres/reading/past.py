"""Earlier times: the partitions that may hold what was current then, and chunks as they stood."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import asyncpg
from groundline_database import is_readable_collection, is_readable_document
from groundline_runtime.errors import FieldViolation, InvalidArgumentError

from groundline_retriever.adapters.postgres.reading.chunks import ReadableChunks, chunks_around, found_chunks
from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.domain import IndexedCollection
from groundline_retriever.passages import FetchedChunk, Wanted

__all__ = ["SearchablePast"]

# How far back what a collection keeps reaches, with its partitions of the past.
_REACH: Final = """
    SELECT c.collection_id, now() AS now, c.partition_id, ARRAY(
            SELECT partition_id FROM past_partitions s WHERE s.collection_id = c.collection_id
        ) AS past,
        CASE WHEN c.history_since IS NULL THEN NULL
            WHEN (c.settings -> 'history' ->> 'everything')::boolean THEN c.history_since
            ELSE greatest(c.history_since, now() - make_interval(
                days => coalesce((c.settings -> 'history' ->> 'days')::integer, 0)
            ))
        END AS since
    FROM collections c WHERE c.collection_id = ANY ($1::text[])
"""

# By its indexes on both columns.
_HOLDS: Final = """
    SELECT {partition_id:d}::bigint AS partition_id WHERE (SELECT min(valid_from) FROM {table}) <= $1
        AND (SELECT max(valid_to) FROM {table}) > $1
"""

_IS_OLD: Final = """
    SELECT {partition_id:d}::bigint AS partition_id
    WHERE EXISTS (SELECT FROM {table} WHERE coalesce(valid_from, update_time) <= $1)
"""

# Chunks of documents that have changed since then. A revision that is in use again has no row of its own.
# Whoever may not read a document now may not read its past, and whoever was let in later sees nothing from
# before.
_FETCH: Final = """
    SELECT wanted.chunk_id AS wanted_id, k.xmin AS version,
        CASE WHEN {with_vectors} AND c.chunk_id = wanted.chunk_id THEN c.embedding::real[] END,
        NULL::bytea[] AS lines,
        c.chunk_id, d.collection_id, c.document_id, listed.place - 1, c.original_text, c.context_annotation,
        coalesce(r.title, d.title), d.uri, c.source_type, coalesce(r.mime_type, d.mime_type),
        listed.start_offset, listed.start_offset + c.end_offset - c.start_offset,
        c.metadata::text, p.valid_from,
        CASE WHEN r.revision IS NULL THEN d.has_original ELSE EXISTS (
            SELECT FROM revision_originals o
            WHERE (o.document_id, o.content_hash, o.part) = (r.document_id, r.content_hash, 0)
        ) END, p.revision
    FROM chunks wanted
    JOIN documents d ON d.document_id = wanted.document_id
    JOIN collections k ON k.collection_id = d.collection_id
    JOIN past_revisions p ON p.document_id = d.document_id AND p.valid_from <= $4 AND p.valid_to > $4
    LEFT JOIN document_revisions r ON (r.document_id, r.revision) = (p.document_id, p.revision)
    CROSS JOIN LATERAL (SELECT array_position(p.chunk_ids, wanted.chunk_id) AS place) AS found
    CROSS JOIN LATERAL (
        SELECT place, p.chunk_ids[place] AS chunk_id, p.starts[place] AS start_offset
        FROM generate_series(
            greatest(found.place - {before}, 1), least(found.place + {after}, cardinality(p.chunk_ids))
        ) AS place
    ) AS listed
    JOIN chunks c ON c.partition_id IN ({partitions}) AND c.chunk_id = listed.chunk_id
    WHERE wanted.partition_id IN ({partitions}) AND wanted.chunk_id = ANY ($2::bigint[])
        AND d.collection_id = ANY ($3::text[]) AND d.update_time > $4
        AND {wanted_then} AND {then} AND {visible} AND {readable_document} AND {readable}
"""


class SearchablePast:
    """Partitions and chunks of the past, of collections that keep it searchable."""

    def __init__(self, reads: Reads, chunks: ReadableChunks) -> None:
        self._reads = reads
        self._chunks = chunks

    async def collections(
        self, collections: Sequence[IndexedCollection], as_of: datetime, *, are_named: bool
    ) -> Sequence[IndexedCollection]:
        """See ChunkStore.collections_as_of."""
        ids = [each.collection_id for each in collections]
        async with self._reads.connection() as connection:
            rows = {row["collection_id"]: row for row in await connection.fetch(_REACH, ids)}
            reaching = [name for name, row in rows.items() if row["since"] and row["since"] <= as_of]
            _require_reach(rows.values(), reaching, as_of, are_named=are_named)
            found: list[IndexedCollection] = []
            for each in collections:
                if each.collection_id in reaching:
                    past = rows[each.collection_id]["past"]
                    statements = [
                        template.format(partition_id=partition_id, table=f"chunks_p{partition_id:d}")
                        for template, partition_id in (
                            (_IS_OLD, each.partition_id),
                            *((_HOLDS, partition_id) for partition_id in past),
                        )
                    ]
                    held = await connection.fetch(" UNION ALL ".join(statements), as_of)
                    for row in held:
                        is_past = row["partition_id"] != each.partition_id
                        found.append(
                            replace(
                                each,
                                partition_id=row["partition_id"],
                                is_past=is_past,
                                is_shared=each.is_shared and not is_past,
                            )
                        )
            return found

    async def fetch(
        self, wanted: Sequence[Wanted], principals: Sequence[str], as_of: datetime
    ) -> Sequence[FetchedChunk]:
        """See ChunkStore.fetch_as_of."""
        found = list(await self._chunks.fetch(wanted, principals, as_of=as_of))
        known = {each.chunk_id for each in found}
        async with self._reads.connection() as connection:
            reach = await connection.fetch(_REACH, [each.collection_id for each in wanted])
            partitions = {row["collection_id"]: [row["partition_id"], *row["past"]] for row in reach}
            for each in wanted:
                missing = [chunk_id for chunk_id in each.chunk_ids if chunk_id not in known]
                if not missing or each.collection_id not in partitions:
                    continue
                before, after = chunks_around(each)
                statement = _FETCH.format(
                    with_vectors="true" if each.with_vectors else "false",
                    before=before,
                    after=after,
                    partitions=", ".join(f"{one:d}" for one in partitions[each.collection_id]),
                    wanted_then=_then("wanted"),
                    then=_then("c"),
                    visible=is_readable_document("$1", "c"),
                    readable_document=is_readable_document("$1", "d"),
                    readable=is_readable_collection("$1", "k"),
                )
                rows = await connection.fetch(statement, principals, missing, [each.collection_id], as_of)
                found += found_chunks(rows)
        return found


def _then(table: str) -> str:
    """Return the condition on a chunk that was current at the time."""
    begins = f"coalesce({table}.valid_from, {table}.update_time) <= $4"
    return f"{begins} AND ({table}.valid_to IS NULL OR {table}.valid_to > $4)"


def _require_reach(
    rows: "Iterable[asyncpg.Record]", reaching: Sequence[str], as_of: datetime, *, are_named: bool
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
