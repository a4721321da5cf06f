"""The keyword arm: BM25 over the indexes of each language."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

import asyncpg
from groundline_lexical import Connection, LexicalIndex
from groundline_ranking import Hit
from groundline_runtime.errors import FailedPreconditionError

from groundline_retriever.adapters.postgres.indexes import (
    FEATURE_NAMES,
    Index,
    RowCondition,
    at_once,
    by_index,
    in_groups,
    indexes_of,
    position_for,
    union,
)
from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.adapters.postgres.soundness import SoundIndexes
from groundline_retriever.domain import Hits, IndexedCollection, Selection

__all__ = ["KeywordArm", "answers_on_standbys"]

MOST_OVERFETCH: Final = 250
"""Multiple of its limit that a keyword search takes from the index at most before it takes all matches."""

FEW_CHUNKS: Final = 1500

FEW_SHARE: Final = 0.015

MOST_FEW_CHUNKS: Final = 50_000
"""Where a filter leaves no more than that number, or that share of what is searched, keyword search is given
their ids, MOST_FEW_CHUNKS at most. Each costs some 0.02 ms; looking through what the index ranks, which is
done otherwise, takes some 35 ms of 100,000 chunks, and grows with them."""

# Selected rows among the first `limit` that the index ranks keep their order; see LexicalIndex.search_sql.
_KEYWORD: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, score, selected, {features}
    FROM ({ranked}) AS ranked
"""

_KEYWORD_AMONG: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, score, true AS selected, {features}
    FROM ({ranked}) AS ranked
"""

_FILTERED: Final = "SELECT chunk_id FROM {table} WHERE {selected}"

_FEW_FILTERED: Final = """
    WITH few AS (
        SELECT least({most:d}, greatest({few:d}, {share} * sum(reltuples)))::bigint AS maximum
        FROM pg_class WHERE oid = ANY ('{{{tables}}}'::regclass[])
    )
    SELECT (SELECT maximum FROM few) AS maximum,
        ARRAY(SELECT chunk_id FROM ({filtered}) AS filtered LIMIT (SELECT maximum + 1 FROM few)) AS chunk_ids
"""

_SELECTED: Final = (
    "SELECT * FROM ({statement}) AS found WHERE selected ORDER BY score DESC, chunk_id LIMIT {limit:d}"
)


class KeywordArm:
    """Search of sound indexes by BM25."""

    def __init__(self, reads: Reads, lexical: LexicalIndex, sound: SoundIndexes) -> None:
        self._reads = reads
        self._lexical = lexical
        self._sound = sound
        self._searches_standbys = answers_on_standbys(lexical)

    async def search(
        self, collections: Sequence[IndexedCollection], query: str, *, limit: int, selection: Selection
    ) -> Hits:
        """See SearchIndex.keyword."""
        for collection in collections:
            self._require_backend(collection)
        condition = RowCondition.of(selection, first_parameter=2)
        languages: dict[str, list[Index]] = defaultdict(list)
        for index in indexes_of(collections):
            languages[index.language].append(index)
        unsound: list[str] = []
        after = position_for(collections, selection)
        found = await at_once(
            [
                self._keyword_in(language, group, query, limit, selection, condition, unsound, after)
                for language, group in languages.items()
            ]
        )
        return Hits([hits for of_language in found for hits in of_language], unsound)

    async def _keyword_in(
        self,
        language: str,
        indexes: Sequence[Index],
        query: str,
        limit: int,
        selection: Selection,
        condition: RowCondition,
        unsound: list[str],
        after: int,
    ) -> list[list[Hit]]:
        """Return the hits of each index, which are all of one language; add the collections of those left
        out."""
        prepared = self._lexical.prepare_query(query, language)

        async def search(connection: Connection, group: Sequence[Index]) -> list[list[Hit]]:
            # On the connection that searches: only it is sure to be of the same life of the server.
            left_out = await self._sound.unsound(connection, [index.partition_id for index in group])
            unsound.extend(
                one for index in group if index.partition_id in left_out for one in index.collection_ids
            )
            group = [index for index in group if index.partition_id not in left_out]
            if not group:
                return []
            if selection.filter is not None and self._lexical.capabilities.filters_chunks:
                few = await _few_filtered(connection, group, selection)
                if few is not None:
                    return await self._keyword_among(connection, group, few, prepared, limit)

            async def rows_of(taken: int | None, each: Sequence[Index]) -> list["asyncpg.Record"]:
                statements = [self._keyword_sql(one, condition, taken) for one in each]
                if taken != limit:
                    statements = [_SELECTED.format(statement=one, limit=limit) for one in statements]
                return await self._lexical_rows(
                    connection, union(statements), taken, prepared, *condition.arguments(each)
                )

            found = by_index(await rows_of(limit, group), group)
            # If the index cannot filter, the condition is evaluated for its ranked rows, of which more are
            # taken as needed. If it can, every row is selected, and no more are taken.
            for position, index in enumerate(group):
                hits, seen = found[position]
                for taken in _more(limit, len(hits)) if len(hits) < seen == limit else ():
                    [(hits, _)] = by_index(await rows_of(taken, [index]), [index])
                    found[position] = hits, 0
                    if len(hits) == limit:
                        break
            return [hits for hits, _ in found]

        async def read(group: Sequence[Index]) -> list[list[Hit]]:
            if not self._searches_standbys:
                return await self._reads.read_on_primary(partial(search, group=group))
            return await self._reads.read(partial(search, group=group), after)

        return await in_groups(indexes, read)

    async def _keyword_among(
        self,
        connection: Connection,
        indexes: Sequence[Index],
        chunk_ids: Sequence[int],
        prepared: str,
        limit: int,
    ) -> list[list[Hit]]:
        """Return the hits of each index among chunks that are known to be selected."""
        if not chunk_ids:
            return [[] for _ in indexes]
        statements = [
            _KEYWORD_AMONG.format(
                partition_id=index.partition_id,
                features=FEATURE_NAMES,
                ranked=self._lexical.search_sql(
                    index.table, index.language, limit=limit, columns=index.features, chunk_ids="$2"
                ),
            )
            for index in indexes
        ]
        rows = await self._lexical_rows(connection, union(statements), limit, prepared, chunk_ids)
        return [hits for hits, _ in by_index(rows, indexes)]

    def _keyword_sql(self, index: Index, condition: RowCondition, limit: int | None) -> str:
        filters = self._lexical.capabilities.filters_in_index
        ranked = self._lexical.search_sql(
            index.table,
            index.language,
            limit=limit,
            columns=f"{'true' if filters else condition.text} AS selected, {index.features}",
            condition=condition.text if filters else "",
            collections=condition.collections if index.is_shared else "",
        )
        return _KEYWORD.format(partition_id=index.partition_id, features=FEATURE_NAMES, ranked=ranked)

    async def _lexical_rows(
        self, connection: Connection, statement: str, limit: int | None, *arguments: object
    ) -> list["asyncpg.Record"]:
        settings = self._lexical.search_settings(limit)
        if not settings:
            return await connection.fetch(statement, *arguments)
        async with connection.transaction(readonly=True):
            for name, value in settings.items():
                await connection.execute("SELECT set_config($1, $2, true)", name, value)
            return await connection.fetch(statement, *arguments)

    def _require_backend(self, collection: IndexedCollection) -> None:
        if collection.lexical_backend != self._lexical.name:
            raise FailedPreconditionError(
                "LEXICAL_BACKEND_MISMATCH",
                f"collection {collection.collection_id} was indexed with {collection.lexical_backend}, "
                f"but {self._lexical.name} is running; reindex the collection",
            )


def answers_on_standbys(lexical: LexicalIndex) -> bool:
    """Tell whether standbys answer keyword searches: if an unclean stop may lose rows, only the primary knows
    the sound indexes."""
    can = lexical.capabilities
    return can.answers_on_standby and can.survives_unclean_stop


async def _few_filtered(
    connection: Connection, indexes: Sequence[Index], selection: Selection
) -> Sequence[int] | None:
    """Return the selected chunks; None if they are not few."""
    condition = RowCondition.of(selection, first_parameter=1)
    filtered = [_FILTERED.format(table=index.table, selected=condition.within(index)) for index in indexes]
    statement = _FEW_FILTERED.format(
        most=MOST_FEW_CHUNKS,
        few=FEW_CHUNKS,
        share=FEW_SHARE,
        tables=",".join(index.table for index in indexes),
        filtered=union(filtered),
    )
    [row] = await connection.fetch(statement, *condition.arguments(indexes))
    chunk_ids: Sequence[int] = row["chunk_ids"]
    return chunk_ids if len(chunk_ids) <= row["maximum"] else None


def _more(limit: int, found: int) -> Sequence[int | None]:
    """Yield how many ranked rows to take, one after the other, when `found` of the first `limit` were
    selected.

    Twice as many as should do at that rate, then MOST_OVERFETCH times the limit, then all, which takes
    seconds for 1,000,000 chunks.
    """
    most = limit * MOST_OVERFETCH
    likely = limit * 2 * limit // found if found else most
    return (likely, most, None) if likely < most else (most, None)
