"""Decisions about what an index beside PostgreSQL proposes."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import batched, chain
from typing import Final

from groundline_ranking import Hit

from groundline_retriever.adapters.postgres.indexes import (
    PARTITIONS_PER_STATEMENT,
    Index,
    RowCondition,
    at_once,
    by_index,
    indexes_of,
    union,
)
from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.adapters.postgres.terms import Terms, TermScores, hits_among
from groundline_retriever.domain import IndexedCollection, Selection

# Existing, selected and readable chunks of the proposals; `selected` is what by_index keeps.
_DECIDED: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, 0::float8 AS score, true AS selected,
        {features_sql}
    FROM {table}
    WHERE partition_id = {partition_id:d} AND chunk_id = ANY ($1::bigint[]) AND {selected}
"""

# More than nothing wherever a change waits, also one of this moment.
_LAGS: Final = """
    SELECT partition_id, CASE WHEN behind_since IS NULL THEN 0
        ELSE greatest(extract(epoch FROM clock_timestamp() - behind_since), 0.000001)
        END::float8 AS lag_seconds
    FROM search_index_coverage WHERE partition_id = ANY ($1::bigint[]) AND is_filled
"""


class Proposals:
    """Reads about another index: which of its proposals count, and how far it is behind."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._scores = TermScores()

    async def decided(
        self,
        collections: Sequence[IndexedCollection],
        proposed: Mapping[tuple[int, int], float],
        selection: Selection,
    ) -> Sequence[Hit]:
        """Return those of the proposals, given by partition and id with their scores, that exist, are
        selected and may be read; in any order."""
        condition = RowCondition.of(selection, first_parameter=2)
        wanted = {partition_id for partition_id, _ in proposed}
        indexes = [index for index in indexes_of(collections) if index.partition_id in wanted]
        chunk_ids = [chunk_id for _, chunk_id in proposed]

        async def decide(group: Sequence[Index]) -> list[list[Hit]]:
            statement = union(
                [
                    _DECIDED.format(
                        partition_id=each.partition_id,
                        features_sql=each.features,
                        table=each.table,
                        selected=condition.within(each),
                    )
                    for each in group
                ]
            )
            async with self._reads.connection() as connection:
                rows = await connection.fetch(statement, chunk_ids, *condition.arguments(group))
            return [hits for hits, _ in by_index(rows, group)]

        groups = batched(indexes, PARTITIONS_PER_STATEMENT)
        found = chain.from_iterable(await at_once([partial(decide, group) for group in groups]))
        return [
            hit._replace(score=proposed[index.partition_id, hit.chunk_id])
            for index, hits in zip(indexes, found, strict=True)
            for hit in hits
            # A chunk that is being moved is in two partitions.
            if (index.partition_id, hit.chunk_id) in proposed
        ]

    async def scored(
        self,
        collections: Sequence[IndexedCollection],
        query: str,
        proposed: Mapping[tuple[int, int], float],
        selection: Selection,
    ) -> Sequence[Hit]:
        """Return what `decided` does, of collections of one language, with scores by the terms of the query
        and by statistics of what the caller may read. Those of the proposals stay if rows of an earlier
        release have no terms."""
        indexes = indexes_of(collections)
        terms = Terms.of(query, indexes[0].language)
        if not proposed or not terms.values:
            return []
        wanted = {partition_id for partition_id, _ in proposed}
        found: list[Hit] = []
        async with self._reads.connection() as connection:
            weights = await self._scores.weights(connection, indexes, terms, selection)
            if weights is not None:
                proposing = [index for index in indexes if index.partition_id in wanted]
                for group in batched(proposing, PARTITIONS_PER_STATEMENT):
                    chunk_ids = [chunk_id for _, chunk_id in proposed]
                    lists = await hits_among(
                        connection, group, terms, weights, chunk_ids, selection, len(chunk_ids)
                    )
                    found += [
                        hit
                        for index, hits in zip(group, lists, strict=True)
                        for hit in hits
                        if (index.partition_id, hit.chunk_id) in proposed
                    ]
                return found
        return await self.decided(collections, proposed, selection)

    async def index_lags(self, partition_ids: Collection[int]) -> Mapping[int, float]:
        """Return the delay, in seconds, of the index that the ingestor feeds, for those of the partitions
        that it has been filled with: earlier changes are in it."""
        async with self._reads.connection() as connection:
            rows = await connection.fetch(_LAGS, list(partition_ids))
        return {row["partition_id"]: row["lag_seconds"] for row in rows}
