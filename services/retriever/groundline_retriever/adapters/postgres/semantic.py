"""The vector arm: HNSW, and the rows themselves where it would find too few."""

import math
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
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
from groundline_retriever.adapters.postgres.sizes import PartitionSizes
from groundline_retriever.domain import (
    DEFAULT_EF_SEARCH,
    MAX_COMPARED_CHUNKS,
    SCANNED_DEPTH,
    Hits,
    IndexedCollection,
    Selection,
    search_list_of,
)

__all__ = ["SESSION_SETTINGS", "SemanticArm"]

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
        indexes = indexes_of(collections)
        # Partitions whose lists are equally long are searched together.
        of: dict[int, list[Index]] = defaultdict(list)
        chunks = await self._chunks_in(indexes) if ef_search is None else {}
        if ef_search is not None:
            of[ef_search] = list(indexes)
        else:
            for index in indexes:
                of[search_list_of(chunks[index.partition_id], limit)].append(index)
        after = position_for(collections, selection)
        found = await at_once(
            [
                self._semantic_in(group, chunks, vector, limit, size, iterative_scan, selection, after)
                for size, group in of.items()
            ]
        )
        lists = [hits for of_group in found for hits in of_group]
        return Hits(merged(lists, limit) if selection.as_of is not None else lists)

    async def _chunks_in(self, indexes: Sequence[Index]) -> Mapping[int, int]:
        """Return the number of chunks by partition, as of some time ago."""
        partition_ids = [index.partition_id for index in indexes]
        if (known := self._sizes.known(partition_ids)) is not None:
            return known
        async with self._reads.connection() as connection:
            return await self._sizes.read(connection, partition_ids)

    async def _semantic_in(
        self,
        indexes: Sequence[Index],
        chunks: Mapping[int, int],
        vector: Vectors,
        limit: int,
        ef_search: int,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        selection: Selection,
        after: int,
    ) -> list[list[Hit]]:
        """Return the hits of each index; `chunks` are its chunks by partition, where they are known."""
        condition, encoded = RowCondition.of(selection, first_parameter=2), HalfVector(vector)
        wanted: Mapping[str, Any] = {"condition": condition, "limit": limit}
        goes_on = iterative_scan != options_pb2.ITERATIVE_SCAN_OFF
        scanned = ef_search if selection.is_partial or not goes_on else limit

        async def search(connection: Connection, group: Sequence[Index]) -> list[list[Hit]]:
            async def found_in(each: Sequence[Index], sql: Callable[[Index], str]) -> list[list[Hit]]:
                rows = await connection.fetch(
                    union([sql(index) for index in each]), encoded, *condition.arguments(each)
                )
                return [hits for hits, _ in by_index(rows, each)]

            found = await found_in(group, partial(_nearest_sql, scanned=scanned, **wanted))

            async def complete(sql: Callable[[Index], str], is_short: Callable[[Index, int], bool]) -> None:
                """Search again the indexes whose number of hits says so."""
                short = [
                    position
                    for position, index in enumerate(group)
                    if not index.is_searched_exactly and is_short(index, len(found[position]))
                ]
                if short:
                    again = await found_in([group[position] for position in short], sql)
                    for position, hits in zip(short, again, strict=True):
                        found[position] = hits

            def scans_on(index: Index, hits: int) -> bool:
                return _scans_on(hits, limit, scanned, chunks.get(index.partition_id))

            if selection.as_of is not None and sum(map(len, found)) >= limit:
                # The nearest of a time are spread over its partitions as its chunks are: together they have
                # enough, unless next to nothing of what is near in one was current.
                await complete(partial(_exact_sql, **wanted), lambda _, hits: hits < scanned // SCANNED_DEPTH)
            elif goes_on:
                # Where enough of the nearest are selected, the index is scanned on, up to
                # hnsw.max_scan_tuples. What is short then, or finds too few there, is searched without it.
                await complete(partial(_filtered_sql, **wanted), scans_on)
                await complete(partial(_exact_sql, **wanted), lambda _, hits: hits < limit)
            return found

        async def read(connection: Connection, group: Sequence[Index]) -> list[list[Hit]]:
            async with _with_list(connection, ef_search, iterative_scan):
                return await search(connection, group)

        return await in_groups(indexes, lambda group: self._reads.read(partial(read, group=group), after))


@asynccontextmanager
async def _with_list(
    connection: Connection, ef_search: int, iterative_scan: options_pb2.IterativeScan.ValueType
) -> AsyncIterator[None]:
    """Have HNSW searched with a list of this size, which takes statements unless it is what connections
    begin with."""
    if (ef_search, iterative_scan) == (DEFAULT_EF_SEARCH, _ITERATIVE_SCAN):
        yield
        return
    async with connection.transaction(readonly=True):
        # Both are our own values.
        await connection.execute(
            f"SET LOCAL hnsw.ef_search = {ef_search:d}; "
            f"SET LOCAL hnsw.iterative_scan = {_SCANS[iterative_scan]}"
        )
        yield


def _scans_on(hits: int, limit: int, scanned: int, chunks: int | None) -> bool:
    """Tell whether HNSW is to be scanned on, of whose first `scanned` chunks these were selected: by the same
    share of all its chunks, if somebody has counted them, are there more than are quickly compared?"""
    selected = hits / scanned * (chunks or math.inf)
    return scanned / SCANNED_DEPTH <= hits < limit and selected > MAX_COMPARED_CHUNKS


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
    """Return the statement for selected rows by HNSW: no index answers a CASE, and the planner takes it to
    hold for half the rows, so it does not sort a result that it believes to be small."""
    selected = f"CASE WHEN {condition.within(index)} THEN true ELSE false END"
    return _SELECTED_NEAREST.format(
        **_semantic_parts(index, limit), selected=selected, distance=index.distance
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
