"""The vector arm: HNSW, and the rows themselves where it would find too few.

Of an index of quantized vectors the nearest are taken by its bits, and ordered by their distance.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from groundline.v1 import options_pb2
from groundline_embedding.ports import Vectors
from groundline_lexical import Connection
from groundline_ranking import Hit
from pgvector import HalfVector

from groundline_retriever.adapters.postgres.indexes import (
    FEATURE_NAMES,
    Index,
    RowCondition,
    at_once,
    by_index,
    in_groups,
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
        after = position_for(collections, selection) if self._reads.has_standbys else 0
        found = await at_once(
            [
                (self._quantized_in if is_quantized else self._semantic_in)(
                    group, vector, limit, size, iterative_scan, selection, after
                )
                for (size, is_quantized), group in of.items()
            ]
        )
        lists = [hits for of_group in found for hits in of_group]
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

    async def _semantic_in(
        self,
        indexes: Sequence[Index],
        vector: Vectors,
        limit: int,
        ef_search: int,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        selection: Selection,
        after: int,
    ) -> list[list[Hit]]:
        """Return the hits of each index."""
        condition, encoded = RowCondition.of(selection, first_parameter=2), HalfVector(vector)
        goes_on = iterative_scan != options_pb2.ITERATIVE_SCAN_OFF
        scanned = ef_search if selection.is_partial or not goes_on else limit

        async def search(connection: Connection, group: Sequence[Index]) -> list[list[Hit]]:
            found = _Found(connection, group, encoded, condition)
            await found.search([_nearest_sql(index, condition, limit, scanned) for index in group])
            if selection.as_of is not None and sum(map(len, found.hits)) >= limit:
                # The nearest of a time are spread over its partitions as its chunks are: together they have
                # enough, unless next to nothing of what is near in one was current.
                await found.complete(
                    lambda index: _exact_sql(index, condition, limit),
                    lambda _, hits: hits < scanned // SCANNED_DEPTH,
                )
            elif goes_on and min(map(len, found.hits)) < limit:
                # Where enough of the nearest are selected, the index is scanned on, up to
                # hnsw.max_scan_tuples. What is short then, or finds too few there, is searched without it.
                await found.complete(
                    lambda index: _filtered_sql(index, condition, limit),
                    lambda index, hits: (
                        scanned / SCANNED_DEPTH <= hits < limit and not self._are_few(index, hits / scanned)
                    ),
                )
                await found.complete(
                    lambda index: _exact_sql(index, condition, limit), lambda _, hits: hits < limit
                )
            return found.hits

        return await self._read_in(indexes, search, ef_search, iterative_scan, after)

    async def _quantized_in(
        self,
        indexes: Sequence[Index],
        vector: Vectors,
        limit: int,
        ef_search: int,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        selection: Selection,
        after: int,
    ) -> list[list[Hit]]:
        """Return the hits of each index of quantized vectors."""
        condition, encoded = RowCondition.of(selection, first_parameter=2), HalfVector(vector)
        goes_on = iterative_scan != options_pb2.ITERATIVE_SCAN_OFF
        candidates = max(ef_search, QUANTIZED_DEPTH * limit)

        def by_bits(index: Index) -> str:
            checks = goes_on and (selection.is_partial or index.is_shared or index.hides_documents)
            return _by_bits_sql(index, condition, limit, candidates, goes_on=goes_on, checks=checks)

        async def search(connection: Connection, group: Sequence[Index]) -> list[list[Hit]]:
            found = _Found(connection, group, encoded, condition)
            await found.search([by_bits(index) for index in group])
            if goes_on:
                await found.complete(
                    lambda index: _exact_sql(index, condition, limit), lambda _, hits: hits < limit
                )
            return found.hits

        return await self._read_in(indexes, search, min(candidates, MAX_EF_SEARCH), iterative_scan, after)

    async def _read_in(
        self,
        indexes: Sequence[Index],
        search: Callable[[Connection, Sequence[Index]], Awaitable[list[list[Hit]]]],
        ef_search: int,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        after: int,
    ) -> list[list[Hit]]:
        """Search on connections with these settings of HNSW."""

        async def read(connection: Connection, group: Sequence[Index]) -> list[list[Hit]]:
            if (ef_search, iterative_scan) == (DEFAULT_EF_SEARCH, _ITERATIVE_SCAN):
                return await search(connection, group)
            async with connection.transaction(readonly=True):
                # Both are our own values.
                await connection.execute(
                    f"SET LOCAL hnsw.ef_search = {ef_search:d}; "
                    f"SET LOCAL hnsw.iterative_scan = {_SCANS[iterative_scan]}"
                )
                return await search(connection, group)

        return await in_groups(indexes, lambda group: self._reads.read(partial(read, group=group), after))


class _Found:
    """Hits of a group of indexes, whose search may take several statements."""

    def __init__(
        self, connection: Connection, group: Sequence[Index], vector: HalfVector, condition: RowCondition
    ) -> None:
        self._connection = connection
        self._group = group
        self._vector = vector
        self._condition = condition
        self.hits: list[list[Hit]] = []

    async def search(self, statements: Sequence[str]) -> None:
        self.hits = await self._in(self._group, statements)

    async def complete(self, sql: Callable[[Index], str], is_short: Callable[[Index, int], bool]) -> None:
        """Search again the indexes whose number of hits is too short a list."""
        short = [
            position
            for position, index in enumerate(self._group)
            if not index.is_searched_exactly and is_short(index, len(self.hits[position]))
        ]
        if short:
            indexes = [self._group[position] for position in short]
            again = await self._in(indexes, [sql(index) for index in indexes])
            for position, hits in zip(short, again, strict=True):
                self.hits[position] = hits

    async def _in(self, indexes: Sequence[Index], statements: Sequence[str]) -> list[list[Hit]]:
        rows = await self._connection.fetch(
            union(statements), self._vector, *self._condition.arguments(indexes)
        )
        return [hits for hits, _ in by_index(rows, indexes)]


def _nearest_sql(index: Index, condition: RowCondition, limit: int, scanned: int) -> str:
    """Return the statement for the selected rows of the first `scanned` of HNSW; of a few collections for all
    rows."""
    if index.is_searched_exactly:
        return _exact_sql(index, condition, limit)
    return _NEAREST.format(
        **_semantic_parts(index, limit),
        selected=condition.within(index),
        distance=index.distance,
        scanned=scanned,
    )


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
