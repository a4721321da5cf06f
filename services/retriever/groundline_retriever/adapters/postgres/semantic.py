"""The vector arm: HNSW, and the rows themselves where it would find too few.

Of an index of quantized vectors the nearest are taken by its bits, and ordered by their distance.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import batched
from typing import Any, Final, NamedTuple

from groundline.v1 import options_pb2
from groundline_embedding.ports import Vectors
from groundline_lexical import Connection
from groundline_ranking import Hit
from pgvector import HalfVector

from groundline_retriever.adapters.postgres.indexes import (
    FEATURE_NAMES,
    KEPT_STATEMENTS,
    PARTITIONS_PER_STATEMENT,
    Index,
    RowCondition,
    at_once,
    by_index,
    indexes_of,
    merged,
    position_for,
    union,
)
from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.adapters.postgres.sizes import PartitionSize, PartitionSizes
from groundline_retriever.domain import (
    DEFAULT_EF_SEARCH,
    MAX_COMPARED_CHUNKS,
    MAX_EF_SEARCH,
    QUANTIZED_DEPTH,
    SCANNED_DEPTH,
    Hits,
    IndexedCollection,
    Selection,
    search_list_of,
)

_ITERATIVE_SCAN: Final = options_pb2.ITERATIVE_SCAN_RELAXED_ORDER
_SCANS: Final[Mapping[int, str]] = {
    options_pb2.ITERATIVE_SCAN_OFF: "off",
    options_pb2.ITERATIVE_SCAN_STRICT_ORDER: "strict_order",
    options_pb2.ITERATIVE_SCAN_RELAXED_ORDER: "relaxed_order",
}

SESSION_SETTINGS: Final[Mapping[str, str]] = {
    "hnsw.ef_search": str(DEFAULT_EF_SEARCH),
    "hnsw.iterative_scan": _SCANS[_ITERATIVE_SCAN],
}
"""Settings of new connections, so that most searches need no statement to set them."""

# The inner statement is one scan of HNSW, the outer one keeps what is selected: without a condition on the
# scan the planner cannot pass HNSW by. A relaxed scan is a little out of order, which the planner does not
# know: it leaves out a sort by the distance, but not one by the score.
_NEAREST: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, 1 - distance AS score, selected, {features}
    FROM (
        SELECT chunk_id, {distance} AS distance, {selected} AS selected, {features_sql} FROM {table}
        ORDER BY {distance} LIMIT {scanned:d}
    ) AS nearest
    WHERE selected ORDER BY score DESC LIMIT {limit:d}
"""

# If no index orders the rows, this computes the distance of each once, by which they are ordered.
_SELECTED_NEAREST: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, 1 - distance AS score, true AS selected,
        {features}
    FROM (
        SELECT chunk_id, {distance} AS distance, {features_sql} FROM {table}
        WHERE {selected} ORDER BY {distance} LIMIT {limit:d}
    ) AS nearest
    ORDER BY score DESC
"""

# Where fewer than the least are selected of what HNSW scans, bits alone would decide, so none are found.
_NEAREST_BY_BITS: Final = """
    WITH nearest AS MATERIALIZED (
        SELECT chunk_id, {distance} AS distance, {features_sql} FROM {table}
        WHERE {selected}{worth_it} ORDER BY {hamming_distance} LIMIT {candidates:d}
    )
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, 1 - distance AS score, true AS selected,
        {features}
    FROM nearest WHERE (SELECT count(*) FROM nearest) >= {least:d} ORDER BY score DESC LIMIT {limit:d}
"""

# Where next to none of the nearest are selected, HNSW is not scanned for those that are.
_WORTH_IT: Final = """ AND (
            SELECT count(*) >= {least:d} FROM (
                SELECT {selected} AS selected FROM {table} ORDER BY {hamming_distance} LIMIT {candidates:d}
            ) AS near WHERE selected
        )"""


class SemanticArm:
    """Search of indexes by vectors, each with the list that its size needs."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._sizes = PartitionSizes()

    async def search(
        self,
        collections: Sequence[IndexedCollection],
        vector: Vectors,
        *,
        limit: int,
        ef_search: int | None,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        selection: Selection,
    ) -> Hits:
        """See SearchIndex.semantic."""
        # Partitions whose lists are equally long are searched together.
        of: dict[tuple[int, bool], list[Index]] = defaultdict(list)
        indexes = indexes_of(collections)
        sizes = await self._sizes_of(indexes)
        for index in indexes:
            chunks, is_quantized = sizes[index.partition_id]
            size = search_list_of(chunks, limit) if ef_search is None else ef_search
            of[size, is_quantized].append(index)
        condition = RowCondition.of(selection, first_parameter=2)
        asked = _Query(HalfVector(vector), condition, limit, iterative_scan, selection)
        after = position_for(collections, selection) if self._reads.has_standbys else None
        works = [
            partial(self._reads.read, partial(self._search, asked, group, size, is_quantized), after)
            for (size, is_quantized), alike in of.items()
            for group in batched(alike, PARTITIONS_PER_STATEMENT)
        ]
        lists = [hits for of_group in await at_once(works) for hits in of_group]
        return Hits(merged(lists, limit) if selection.as_of is not None else lists)

    async def _sizes_of(self, indexes: Sequence[Index]) -> Mapping[int, PartitionSize]:
        """Return the sizes of partitions, as of some time ago."""
        partition_ids = [index.partition_id for index in indexes]
        if (known := self._sizes.known(partition_ids)) is not None:
            return known
        async with self._reads.connection() as connection:
            return await self._sizes.read(connection, partition_ids)

    def _are_few(self, index: Index, share: float) -> bool:
        """Tell whether this share of all chunks of an index, if somebody has counted them, is quickly
        compared."""
        known = self._sizes.known([index.partition_id])
        chunks = known[index.partition_id].chunks if known else 0
        return 0 < chunks * share <= MAX_COMPARED_CHUNKS

    async def _search(
        self, query: "_Query", group: Sequence[Index], size: int, is_quantized: bool, connection: Connection
    ) -> list[list[Hit]]:
        """Return the hits of each index of a group, searched with lists of this size."""
        search, ef_search = self._nearest, size
        if is_quantized:
            size = max(size, QUANTIZED_DEPTH * query.limit)
            search, ef_search = self._nearest_by_bits, min(size, MAX_EF_SEARCH)
        if (ef_search, query.iterative_scan) == (DEFAULT_EF_SEARCH, _ITERATIVE_SCAN):
            return await search(connection, query, group, size)
        async with connection.transaction(readonly=True):
            # Both are our own values.
            await connection.execute(
                f"SET LOCAL hnsw.ef_search = {ef_search:d}; "
                f"SET LOCAL hnsw.iterative_scan = {_SCANS[query.iterative_scan]}"
            )
            return await search(connection, query, group, size)

    async def _nearest(
        self, connection: Connection, query: "_Query", group: Sequence[Index], size: int
    ) -> list[list[Hit]]:
        condition, limit, selection = query.condition, query.limit, query.selection
        goes_on = query.iterative_scan != options_pb2.ITERATIVE_SCAN_OFF
        scanned = size if selection.is_partial or not goes_on else limit
        statements = [_nearest_sql(index, condition, limit, scanned) for index in group]
        found = await _fetched(connection, query, group, statements)
        if selection.as_of is not None and sum(map(len, found)) >= limit:
            # The nearest of a time are spread over its partitions as its chunks are: together they have
            # enough, unless next to nothing of what is near in one was current.
            await _complete(
                connection, query, group, found, _exact_sql, lambda _, hits: hits < scanned // SCANNED_DEPTH
            )
        elif goes_on and min(map(len, found)) < limit:
            # Where enough of the nearest are selected, the index is scanned on, up to
            # hnsw.max_scan_tuples. What is short then, or finds too few there, is searched without it.
            await _complete(
                connection,
                query,
                group,
                found,
                _filtered_sql,
                lambda index, hits: (
                    scanned / SCANNED_DEPTH <= hits < limit and not self._are_few(index, hits / scanned)
                ),
            )
            await _complete(connection, query, group, found, _exact_sql, lambda _, hits: hits < limit)
        return found

    async def _nearest_by_bits(
        self, connection: Connection, query: "_Query", group: Sequence[Index], size: int
    ) -> list[list[Hit]]:
        condition, limit, selection = query.condition, query.limit, query.selection
        goes_on = query.iterative_scan != options_pb2.ITERATIVE_SCAN_OFF
        statements = [
            _by_bits_sql(
                index,
                condition,
                limit,
                size,
                goes_on=goes_on,
                checks=goes_on and (selection.is_partial or index.is_shared or index.hides_documents),
            )
            for index in group
        ]
        found = await _fetched(connection, query, group, statements)
        if goes_on:
            await _complete(connection, query, group, found, _exact_sql, lambda _, hits: hits < limit)
        return found


class _Query(NamedTuple):
    """A query's vector, and which chunks to find by it."""

    vector: HalfVector
    condition: RowCondition
    limit: int
    iterative_scan: options_pb2.IterativeScan.ValueType
    selection: Selection


async def _fetched(
    connection: Connection, query: _Query, indexes: Sequence[Index], statements: Sequence[str]
) -> list[list[Hit]]:
    rows = await connection.fetch(union(statements), query.vector, *query.condition.arguments(indexes))
    return [hits for hits, _ in by_index(rows, indexes)]


async def _complete(
    connection: Connection,
    query: _Query,
    group: Sequence[Index],
    found: list[list[Hit]],
    sql: Callable[[Index, RowCondition, int], str],
    is_short: Callable[[Index, int], bool],
) -> None:
    """Search again the indexes whose number of hits is too short a list; put the hits into `found`."""
    short = [
        position
        for position, index in enumerate(group)
        if not index.is_searched_exactly and is_short(index, len(found[position]))
    ]
    if short:
        indexes = [group[position] for position in short]
        statements = [sql(index, query.condition, query.limit) for index in indexes]
        for position, hits in zip(short, await _fetched(connection, query, indexes, statements), strict=True):
            found[position] = hits


def _nearest_sql(index: Index, condition: RowCondition, limit: int, scanned: int) -> str:
    """Return the statement for the selected rows of the first `scanned` of HNSW; of a few collections for all
    rows."""
    if index.is_searched_exactly:
        return _exact_sql(index, condition, limit)
    return _scanning_sql(index, condition, limit, scanned)


@lru_cache(maxsize=KEPT_STATEMENTS)
def _scanning_sql(index: Index, condition: RowCondition, limit: int, scanned: int) -> str:
    return _NEAREST.format(
        **_semantic_parts(index, limit),
        selected=condition.within(index),
        distance=index.distance,
        scanned=scanned,
    )


@lru_cache(maxsize=KEPT_STATEMENTS)
def _filtered_sql(index: Index, condition: RowCondition, limit: int) -> str:
    """Return the statement for selected rows by HNSW."""
    return _SELECTED_NEAREST.format(
        **_semantic_parts(index, limit), selected=_on_the_way(index, condition), distance=index.distance
    )


def _on_the_way(index: Index, condition: RowCondition) -> str:
    """Return the condition for a scan of HNSW: no index answers a CASE, and the planner takes it to hold for
    half the rows, so it does not sort a result that it believes to be small."""
    return f"CASE WHEN {condition.within(index)} THEN true ELSE false END"


def _by_bits_sql(
    index: Index, condition: RowCondition, limit: int, candidates: int, *, goes_on: bool, checks: bool
) -> str:
    """Return the statement for the best of the `candidates` that are nearest by their bits. If it goes on,
    nothing is found unless as many are selected; if it checks, unless enough of the nearest of all are."""
    if index.is_searched_exactly:
        return _exact_sql(index, condition, limit)
    parts = {
        **_semantic_parts(index, limit),
        "hamming_distance": index.hamming_distance,
        "candidates": candidates,
    }
    worth_it = _WORTH_IT.format(**parts, selected=condition.within(index), least=candidates // SCANNED_DEPTH)
    return _NEAREST_BY_BITS.format(
        **parts,
        distance=index.distance,
        selected=_on_the_way(index, condition),
        worth_it=worth_it if checks else "",
        least=candidates if goes_on else 0,
    )


@lru_cache(maxsize=KEPT_STATEMENTS)
def _exact_sql(index: Index, condition: RowCondition, limit: int) -> str:
    """Return the statement for selected rows without HNSW, which has no index on this expression."""
    return _SELECTED_NEAREST.format(
        **_semantic_parts(index, limit), selected=condition.within(index), distance=f"({index.distance}) + 0"
    )


def _semantic_parts(index: Index, limit: int) -> dict[str, Any]:
    return {
        "partition_id": index.partition_id,
        "features": FEATURE_NAMES,
        "features_sql": index.features,
        "table": index.table,
        "limit": limit,
    }
