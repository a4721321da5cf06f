"""The keyword arm: BM25 over the indexes of each language.

Where the caller may read all of an index, that index scores it. Otherwise its statistics would show what
he may not read: a few chunks are all scored by their terms, and of many those that the index proposes.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import batched
from operator import attrgetter
from typing import Final

import asyncpg
from groundline_lexical import Connection, LexicalIndex
from groundline_ranking import Hit
from groundline_runtime.errors import FailedPreconditionError

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
from groundline_retriever.adapters.postgres.sizes import PartitionSizes
from groundline_retriever.adapters.postgres.soundness import SoundIndexes
from groundline_retriever.adapters.postgres.terms import (
    Terms,
    TermScores,
    Weights,
    hits_among,
    is_readable_whole,
)
from groundline_retriever.domain import SCANNED_DEPTH, Hits, IndexedCollection, Selection

MOST_OVERFETCH: Final = 250
"""Multiple of its limit that a keyword search takes from the index at most before it takes all matches."""

PROPOSALS: Final = 5
"""Multiple of its limit that the keyword index proposes where others' chunks decide its order."""

PAST_PROPOSALS: Final = 2
"""Multiple of its limit that the keyword index of a partition of the past ranks."""

FEW_SELECTED: Final = 2_000

FEW_SHARE: Final = 0.02

MOST_SELECTED: Final = 50_000
"""Where a filter leaves no more than FEW_SELECTED, or that share of what is searched, MOST_SELECTED at most,
they are all scored by their terms; each costs some 3 µs. Otherwise the keyword index is looked through."""

# Selected rows among the first `limit` that the index ranks keep their order; see LexicalIndex.search_sql.
_KEYWORD: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, score, selected, {features}
    FROM ({ranked}) AS ranked
"""

_SELECTED: Final = (
    "SELECT * FROM ({statement}) AS found WHERE selected ORDER BY score DESC, chunk_id LIMIT {limit:d}"
)

_SELECTED_IDS: Final = "SELECT chunk_id FROM {table} WHERE {selected} LIMIT {limit:d}"


@dataclass(frozen=True)
class _Query:
    """A query in one language."""

    text: str
    language: str
    prepared: str
    """Query as the keyword index takes it."""
    limit: int
    selection: Selection
    condition: RowCondition
    in_use: Sequence[Index]
    """Indexes of the present, whose statistics count in the past as well."""
    weights: dict[tuple[int, ...], Weights | None] = field(default_factory=dict)
    """Statistics that were read for this query, by the partitions that they are of."""

    @cached_property
    def terms(self) -> Terms:
        """Terms of the query, which an index that the caller may read whole does not need."""
        return Terms.of(self.text, self.language)


class KeywordArm:
    """Search of sound indexes by BM25."""

    def __init__(self, reads: Reads, lexical: LexicalIndex, sound: SoundIndexes) -> None:
        self._reads = reads
        self._lexical = lexical
        self._sound = sound
        self._sizes = PartitionSizes()
        self._scores = TermScores()
        self._keyword_sql = lru_cache(KEPT_STATEMENTS)(self._composed)
        self._searches_standbys = reads.has_standbys and answers_on_standbys(lexical)

    async def search(
        self, collections: Sequence[IndexedCollection], query: str, *, limit: int, selection: Selection
    ) -> Hits:
        """See SearchIndex.keyword."""
        for collection in collections:
            if collection.lexical_backend != self._lexical.name:
                raise FailedPreconditionError(
                    "LEXICAL_BACKEND_MISMATCH",
                    f"collection {collection.collection_id} was indexed with {collection.lexical_backend}, "
                    f"but {self._lexical.name} is running; reindex the collection",
                )
        languages: dict[str, list[Index]] = defaultdict(list)
        in_use = indexes = indexes_of(collections)
        for index in indexes:
            languages[index.language].append(index)
        if selection.as_of is not None:
            present = {each.collection_id: each.in_use or each for each in collections}
            in_use = indexes_of(list(present.values()))
        condition = RowCondition.of(selection, first_parameter=2)
        after = position_for(collections, selection) if self._searches_standbys else None
        works = []
        for language, of_language in languages.items():
            prepared = self._lexical.prepare_query(query, language)
            counted = [index for index in in_use if index.language == language]
            asked = _Query(query, language, prepared, limit, selection, condition, counted)
            for group in batched(of_language, PARTITIONS_PER_STATEMENT):
                search = partial(self._search, group=group, query=asked)
                works.append(partial(self._reads.read, search, after))
        parts = await at_once(works)
        lists = [hits for part in parts for hits in part.lists]
        return Hits(
            merged(lists, limit) if selection.as_of is not None else lists,
            unsound=[name for part in parts for name in part.unsound],
            is_incomplete=any(map(attrgetter("is_incomplete"), parts)),
        )

    async def _search(self, connection: Connection, group: Sequence[Index], query: _Query) -> Hits:
        lists: list[Sequence[Hit]] = []
        partly = [
            index for index in group if (index.is_shared or index.hides_documents) and not index.is_past
        ]
        if partly:
            few = await self._scores.of_few(connection, partly, query.terms, query.selection, query.limit)
            lists.extend(few.values())
            group = [index for index in group if index.partition_id not in few]
        # On the connection that searches: only it is sure to be of the same life of the server.
        unsound = await self._sound.unsound(connection, [index.partition_id for index in group])
        left_out = [name for index in group if index.partition_id in unsound for name in index.collection_ids]
        whole: list[Index] = []
        past: list[Index] = []
        is_incomplete = False
        for index in group:
            if index.partition_id in unsound:
                continue
            if index.is_past:
                past.append(index)
            elif (
                await is_readable_whole(connection, index, query.selection)
                if index.is_shared
                else not index.hides_documents
            ):
                whole.append(index)
            else:
                hits, is_short = await self._of_part(connection, index, query)
                lists.append(hits)
                is_incomplete |= is_short
        if past:
            lists += await self._of_past(connection, past, query)
        if whole:
            found, is_short = await self._of_whole(connection, whole, query)
            lists.extend(found)
            is_incomplete |= is_short
        return Hits(lists, left_out, is_incomplete=is_incomplete)

    async def _of_whole(
        self, connection: Connection, indexes: Sequence[Index], query: _Query
    ) -> tuple[list[list[Hit]], bool]:
        """Return the hits of indexes that the caller may read whole, and whether there may be more."""
        if query.selection.is_partial:
            sizes = await self._sizes.of(connection, [index.partition_id for index in indexes])
            share = int(FEW_SHARE * sum(size.chunks for size in sizes.values()))
            most = min(max(FEW_SELECTED, share), MOST_SELECTED)
            selected = await self._of_selected(connection, indexes, query, most)
            if selected is not None:
                return selected, False
        found = await self._ranked(connection, indexes, query, query.limit)
        if min(map(len, found)) >= query.limit:
            return found, False
        return await self._completed(connection, indexes, query, found)

    async def _of_part(self, connection: Connection, index: Index, query: _Query) -> tuple[list[Hit], bool]:
        """Return the hits of an index of which the caller may read a part, and whether there may be more."""
        weights = await self._weights(connection, [index], query)
        if weights is None:
            proposed = await self._ranked(connection, [index], query, query.limit)
        else:
            [hits] = await self._ranked(connection, [index], query, query.limit * PROPOSALS)
            proposed = await hits_among(
                connection,
                [index],
                query.terms,
                weights,
                [hit.chunk_id for hit in hits],
                query.selection,
                query.limit,
            )
        [hits], is_short = await self._completed(connection, [index], query, proposed)
        return hits, is_short

    async def _of_past(
        self, connection: Connection, indexes: Sequence[Index], query: _Query
    ) -> list[list[Hit]]:
        """Return the hits of indexes of the past, by statistics of what the caller may read now.

        The best of a time are spread over its partitions as its chunks are: together they have enough, unless
        next to nothing of what is ranked in one was current.
        """
        if not query.terms.values:
            return []
        taken = query.limit * PAST_PROPOSALS
        proposed = by_index(await self._rows(connection, indexes, query, taken), indexes)
        lists = [hits for hits, _ in proposed]
        least = taken // SCANNED_DEPTH if sum(map(len, lists)) >= query.limit else query.limit
        short = [
            position for position, (hits, seen) in enumerate(proposed) if seen == taken and len(hits) < least
        ]
        weights = await self._weights(connection, query.in_use, query)
        few: Sequence[int] | None = ()
        if short:
            # Mostly these are partitions at whose edge the time is: all that was current is scored, if few.
            wanted = [indexes[position] for position in short]
            few = (
                await self._selected(connection, wanted, query, FEW_SELECTED) if weights is not None else None
            )
            if few is None:
                for position in short:
                    [lists[position]] = await self._ranked(
                        connection, [indexes[position]], query, query.limit
                    )
        if weights is None:
            return lists
        chunk_ids = [*(hit.chunk_id for hits in lists for hit in hits), *(few or ())]
        return await hits_among(
            connection, indexes, query.terms, weights, chunk_ids, query.selection, query.limit
        )

    async def _completed(
        self, connection: Connection, indexes: Sequence[Index], query: _Query, found: list[list[Hit]]
    ) -> tuple[list[list[Hit]], bool]:
        """Return `found`, with lists that the keyword index gave up on completed as far as they can be, and
        whether there may be more."""
        most = self._lexical.capabilities.considered_matches
        short = [position for position, hits in enumerate(found) if len(hits) < query.limit]
        if most is None or not short:
            return found, False
        is_short = False
        sizes = await self._sizes.of(connection, [indexes[position].partition_id for position in short])
        for position in short:
            index = indexes[position]
            if sizes[index.partition_id].chunks <= most or not _is_selecting(index, query.selection):
                continue
            selected = await self._of_selected(connection, [index], query, MOST_SELECTED)
            if selected is None:
                is_short = True
            else:
                [found[position]] = selected
        return found, is_short

    async def _of_selected(
        self, connection: Connection, indexes: Sequence[Index], query: _Query, most: int
    ) -> list[list[Hit]] | None:
        """Return the hits of indexes of which `most` chunks at most are selected, by their terms; None if
        there are more."""
        if not query.terms.values:
            return None
        chunk_ids = await self._selected(connection, indexes, query, most)
        if chunk_ids is None:
            return None
        weights = await self._weights(connection, indexes, query)
        if weights is None:
            return None
        return await hits_among(
            connection, indexes, query.terms, weights, chunk_ids, query.selection, query.limit
        )

    async def _selected(
        self, connection: Connection, indexes: Sequence[Index], query: _Query, most: int
    ) -> list[int] | None:
        """Return the ids of the chunks that are selected; None if there are more than `most`."""
        condition = RowCondition.of(query.selection, first_parameter=1)
        statements = [
            _SELECTED_IDS.format(table=index.table, selected=condition.within(index), limit=most + 1)
            for index in indexes
        ]
        rows = await connection.fetch(union(statements), *condition.arguments(indexes))
        return None if len(rows) > most else [row["chunk_id"] for row in rows]

    async def _weights(
        self, connection: Connection, indexes: Sequence[Index], query: _Query
    ) -> Weights | None:
        """Return the statistics of indexes, which are read once for a query."""
        key = tuple(index.partition_id for index in indexes)
        if key not in query.weights:
            found = await self._scores.weights(connection, indexes, query.terms, query.selection)
            query.weights[key] = found
        return query.weights[key]

    async def _ranked(
        self, connection: Connection, indexes: Sequence[Index], query: _Query, limit: int
    ) -> list[list[Hit]]:
        """Return the best `limit` hits of each index, as the keyword index ranks them."""
        found = by_index(await self._rows(connection, indexes, query, limit), indexes)
        # If the index cannot filter, the condition is evaluated for its ranked rows, of which more are
        # taken as needed. If it can, every row is selected, and no more are taken.
        for position, index in enumerate(indexes):
            hits, seen = found[position]
            for taken in _more(limit, len(hits)) if len(hits) < seen == limit else ():
                rows = await self._rows(connection, [index], query, taken, kept=limit)
                [(hits, _)] = by_index(rows, [index])
                found[position] = hits, 0
                if len(hits) == limit:
                    break
        return [hits for hits, _ in found]

    async def _rows(
        self,
        connection: Connection,
        indexes: Sequence[Index],
        query: _Query,
        taken: int | None,
        *,
        kept: int | None = None,
    ) -> list["asyncpg.Record"]:
        """Return the first `taken` rows that each index ranks; or the first `kept` that are selected."""
        statements = [self._keyword_sql(one, query.condition, taken) for one in indexes]
        if kept is not None:
            statements = [_SELECTED.format(statement=one, limit=kept) for one in statements]
        statement, arguments = union(statements), query.condition.arguments(indexes)
        settings = self._lexical.search_settings(taken)
        if not settings:
            return await connection.fetch(statement, query.prepared, *arguments)
        async with connection.transaction(readonly=True):
            for name, value in settings.items():
                await connection.execute("SELECT set_config($1, $2, true)", name, value)
            return await connection.fetch(statement, query.prepared, *arguments)

    def _composed(self, index: Index, condition: RowCondition, limit: int | None) -> str:
        filters = self._lexical.capabilities.filters_in_index
        ranked = self._lexical.search_sql(
            index.table,
            index.language,
            limit=limit,
            columns=f"{'true' if filters else condition.row(index)} AS selected, {index.features}",
            condition=condition.row(index) if filters else "",
            collections=condition.collections if index.is_shared else "",
        )
        return _KEYWORD.format(partition_id=index.partition_id, features=FEATURE_NAMES, ranked=ranked)


def answers_on_standbys(lexical: LexicalIndex) -> bool:
    """Tell whether standbys answer keyword searches: if an unclean stop may lose rows, only the primary knows
    the sound indexes."""
    can = lexical.capabilities
    return can.answers_on_standby and can.survives_unclean_stop


def _is_selecting(index: Index, selection: Selection) -> bool:
    return selection.is_partial or index.is_shared or index.hides_documents


def _more(limit: int, found: int) -> Sequence[int | None]:
    """Yield how many ranked rows to take, one after the other, when `found` of the first `limit` were
    selected.

    Twice as many as should do at that rate, then MOST_OVERFETCH times the limit, then all, which takes
    seconds for 1,000,000 chunks.
    """
    most = limit * MOST_OVERFETCH
    likely = limit * 2 * limit // found if found else most
    return (likely, most, None) if likely < most else (most, None)
