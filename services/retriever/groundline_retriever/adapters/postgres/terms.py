"""BM25 by the chunks' own terms, with statistics of what the caller may read.

A keyword index counts every chunk of its table. Where a caller may not read all of them, its scores and its
order would tell what the others hold. Here the number of chunks, their mean length and the frequency of each
term are those of the collections that are searched, without documents that the caller may not read.
"""

import math
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Self

import asyncpg
from cachetools import TTLCache
from groundline_database import Connection, is_readable_document
from groundline_lexical import MAXIMUM_SEARCHED_TERMS, TERMS, searched_terms
from groundline_ranking import Hit
from pgvector import SparseVector

from groundline_retriever.adapters.postgres.indexes import (
    FEATURE_NAMES,
    Index,
    RowCondition,
    by_index,
    union,
)
from groundline_retriever.domain import Selection

FEW_CHUNKS: Final = 2_000
"""Maximum chunks that are all scored, each for some 3 µs; of more, those that the keyword index proposes."""

SAMPLED_DOCUMENTS: Final = 500
"""Maximum documents in the sample that statistics of more chunks come from."""

SAMPLED_CHUNKS: Final = 1_000
"""Number of chunks in a sample, approximately."""

SAMPLED_PARTITIONS: Final = 50
"""Maximum partitions that a sample is read from."""

KNOWN_SECONDS: Final = 30.0
"""Time for which a sample is used, in seconds."""

KNOWN_SAMPLES: Final = 1_000

K1: Final = 1.2
B: Final = 0.75
"""Parameters of BM25, with the values that the keyword indexes have."""

_SIZES: Final = (2, 4, 6, 8, 12, 16, 24, 32, 48, MAXIMUM_SEARCHED_TERMS)
"""Numbers of terms that statements have, so that there are few to plan."""

_FREQUENCY: Final = "count(*) FILTER (WHERE {count} > 0)"
_WEIGHT: Final = f"ln(1 + (count(*) - {_FREQUENCY} + 0.5) / ({_FREQUENCY} + 0.5))::float8 AS weight_{{n}}"
"""Inverse document frequency, as Lucene has it: never negative."""

_NO_TERM: Final = SparseVector({}, TERMS)
_PADDING: Final = -1
"""Number in place of a term that no chunk has."""

_LENGTH: Final = f"lexical_terms <+> '{_NO_TERM.to_text()}'::sparsevec AS length"

# A row for each hit, and one if nothing is found. Nothing is scored unless the statistics are
# known, which rows of an earlier release or too many rows prevent.
_FEW: Final = """
    SELECT is_known, {partition_id:d}::bigint AS partition_id, chunk_id, score,
        chunk_id IS NOT NULL AS selected, {features}
    FROM (
        WITH readable AS MATERIALIZED (
            SELECT chunk_id AS found_id, {selected} AS selected, lexical_terms IS NULL AS is_old, {length},
                {counts}
            FROM {table} WHERE {scope} LIMIT {few:d} + 1
        ), total AS (
            SELECT count(*) <= {few:d} AND NOT coalesce(bool_or(is_old), false) AS is_known,
                nullif(avg(length), 0) AS mean, {weights}
            FROM readable
        ), best AS (
            SELECT found_id, {score} AS score FROM readable, total WHERE is_known AND selected AND {matches}
            ORDER BY score DESC, found_id LIMIT {limit:d}
        )
        SELECT is_known, found_id, score FROM total LEFT JOIN best ON true
    ) AS found
    LEFT JOIN {table} ON partition_id = {partition_id:d} AND chunk_id = found_id
    ORDER BY score DESC, chunk_id
"""

_AMONG: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, {score} AS score, true AS selected,
        {feature_names}
    FROM (
        SELECT chunk_id, {features}, {length}, {counts} FROM {table}
        WHERE partition_id = {partition_id:d} AND chunk_id = ANY ({chunk_ids}::bigint[]) AND {selected}
    ) AS counted
    WHERE {matches} ORDER BY score DESC, chunk_id LIMIT {limit:d}
"""

# The same documents each time, whatever else is stored.
_SAMPLE: Final = f"""
    SELECT partition_id, document_id, chunk_count, sum(chunk_count) OVER () AS total
    FROM documents JOIN unnest($1::text[], $2::bigint[]) AS searched (collection_id, partition_id)
        USING (collection_id)
    WHERE {is_readable_document("$3", "documents")}
    ORDER BY uuid_hash_extended(document_id, 0) LIMIT {SAMPLED_DOCUMENTS}
"""  # noqa: S608

_STATISTICS: Final = """
    SELECT count(*) AS chunks, count(*) FILTER (WHERE is_old) AS old, coalesce(sum(length), 0) AS length,
        ARRAY[{frequencies}] AS frequencies
    FROM (
        SELECT lexical_terms IS NULL AS is_old, {length}, {counts} FROM {table}
        WHERE document_id = ANY (${documents:d}::uuid[]) AND chunk_index % {stride:d} = 0
    ) AS sampled
"""

# EXCEPT compares thousands of collections by a hash; a list, in a plan for any values, one by one.
_WHOLE: Final = f"""
    SELECT NOT EXISTS (
        SELECT collection_id FROM collections WHERE partition_id = $1
        UNION ALL SELECT collection_id FROM left_partitions WHERE partition_id = $1
        EXCEPT SELECT unnest($2::text[])
    ) AND NOT EXISTS (
        SELECT FROM documents
        WHERE collection_id = ANY ($2::text[]) AND allowed_principals <> '{{}}'
            AND NOT {is_readable_document("$3")}
    )
"""  # noqa: S608


class Terms(NamedTuple):
    """Terms of a query, as parameters from $1 on of a statement."""

    values: Sequence[SparseVector]
    numbers: Sequence[int]
    """The term of each value."""

    @classmethod
    def of(cls, query: str, language: str) -> Self:
        return cls._numbered(searched_terms(query, language))

    @classmethod
    def _numbered(cls, numbers: Sequence[int]) -> Self:
        if not numbers:
            return cls([], [])
        padding = next(size for size in _SIZES if len(numbers) <= size) - len(numbers)
        found = [SparseVector({number: 1.0}, TERMS) for number in numbers]
        return cls([*found, *[_NO_TERM] * padding], [*numbers, *[_PADDING] * padding])

    def without(self, known: Container[int]) -> Self:
        """Return those that are not known."""
        return self._numbered([each for each in self.numbers if each not in known])

    @property
    def next_parameter(self) -> int:
        return len(self.values) + 1

    def each(self, template: str, separator: str = ", ") -> str:
        """Return SQL of every term: `{n}` is its number, `{count}` its count in a chunk."""
        return separator.join(
            template.format(n=number, count=f"count_{number}") for number in range(1, self.next_parameter)
        )

    @property
    def counts(self) -> str:
        # The operator gives the negative of the inner product.
        return self.each("-(lexical_terms <#> ${n}::sparsevec) AS {count}")

    @property
    def matches(self) -> str:
        return f"{self.each('{count}', ' + ')} > 0"

    def score(self, weight: str, mean: str) -> str:
        """Return the SQL expression of BM25: `weight` of the term `{n}`, `mean` length of a chunk."""
        norm = f"{K1} * ({1 - B} + {B} * length / {mean})"
        return self.each(f"{weight} * {{count}} * {K1 + 1} / ({{count}} + {norm})", " + ")


class Weights(NamedTuple):
    """Statistics of what is searched."""

    mean_length: float
    """Mean length of a chunk, in terms."""
    weights: Sequence[float]
    """Inverse document frequency of each term."""


@dataclass(slots=True)
class _Sample:
    document_ids: Mapping[int, Sequence[str]]
    """Documents by partition."""
    stride: int
    """Distance between the sampled chunks of a document."""
    scale: float
    """Number of chunks that a sampled one stands for."""
    chunks: int = 0
    length: float = 0.0
    """Length of all sampled chunks, in terms."""
    shares: dict[int, float] = field(default_factory=lambda: {_PADDING: 0.0})
    """Share of the sampled chunks with a term, by the terms that have been asked for."""

    @classmethod
    def of(cls, rows: Sequence["asyncpg.Record"]) -> Self:
        """Take rows of _SAMPLE."""
        partitions = set(islice(dict.fromkeys(row["partition_id"] for row in rows), SAMPLED_PARTITIONS))
        rows = [row for row in rows if row["partition_id"] in partitions]
        document_ids: dict[int, list[str]] = defaultdict(list)
        for row in rows:
            document_ids[row["partition_id"]].append(row["document_id"])
        chunks = sum(row["chunk_count"] for row in rows) or 1
        stride = math.ceil(chunks / SAMPLED_CHUNKS)
        return cls(document_ids, stride, stride * float(rows[0]["total"]) / chunks if rows else 1.0)

    def count(self, terms: Terms, rows: Sequence["asyncpg.Record"]) -> None:
        """Take rows of _STATISTICS."""
        self.chunks = sum(row["chunks"] for row in rows)
        self.length = sum(row["length"] for row in rows)
        by_term = zip(*(row["frequencies"] for row in rows), strict=True)
        shares = [sum(counts) / (self.chunks or 1) for counts in by_term]
        self.shares.update(zip(terms.numbers, shares, strict=True))

    def weights(self, terms: Terms) -> Weights:
        """Return the statistics of terms that have been counted."""
        chunks = self.scale * self.chunks
        frequencies = [self.shares[number] * chunks for number in terms.numbers]
        return Weights(
            self.length / self.chunks if self.length else 1.0,
            [math.log(1 + (chunks - count + 0.5) / (count + 0.5)) for count in frequencies],
        )


type _Key = tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]
"""Collections, the partition of each, and principals."""


class TermScores:
    """Scores of chunks by their terms."""

    def __init__(self) -> None:
        self._samples: TTLCache[_Key, _Sample] = TTLCache(KNOWN_SAMPLES, KNOWN_SECONDS)
        """Samples of those that are too large to count, with what was counted in them."""

    async def of_few(
        self,
        connection: Connection,
        indexes: Sequence[Index],
        terms: Terms,
        selection: Selection,
        limit: int,
    ) -> Mapping[int, Sequence[Hit]]:
        """Return the best hits by partition, of those of which the caller may read FEW_CHUNKS at most."""
        if not terms.values:
            return {index.partition_id: () for index in indexes}
        indexes = [index for index in indexes if _key([index], selection) not in self._samples]
        if not indexes:
            return {}
        condition = RowCondition.of(selection, first_parameter=terms.next_parameter)
        statements = [
            _FEW.format(
                partition_id=index.partition_id,
                table=index.table,
                features=index.features,
                selected=condition.selecting(index),
                scope=condition.readable(index),
                length=_LENGTH,
                counts=terms.counts,
                weights=terms.each(_WEIGHT),
                score=terms.score("weight_{n}", "mean"),
                matches=terms.matches,
                few=FEW_CHUNKS,
                limit=limit,
            )
            for index in indexes
        ]
        rows = await connection.fetch(
            union(statements), *terms.values, *condition.readable_arguments(indexes)
        )
        known = {row["partition_id"] for row in rows if row["is_known"]}
        found = by_index([row[1:] for row in rows], indexes)
        return {
            index.partition_id: hits
            for index, (hits, _) in zip(indexes, found, strict=True)
            if index.partition_id in known
        }

    async def weights(
        self, connection: Connection, indexes: Sequence[Index], terms: Terms, selection: Selection
    ) -> Weights | None:
        """Return statistics of a sample of what the caller may read; None if rows of an earlier release have
        no terms."""
        sample = await self._sample(connection, indexes, selection)
        unknown = terms.without(sample.shares)
        if not sample.document_ids:
            return Weights(1.0, [0.0] * len(terms.values))
        if unknown.values:
            statements = [
                _STATISTICS.format(
                    table=f"chunks_p{partition_id:d}",
                    length=_LENGTH,
                    counts=unknown.counts,
                    frequencies=unknown.each(_FREQUENCY),
                    documents=parameter,
                    stride=sample.stride,
                )
                for parameter, partition_id in enumerate(sample.document_ids, unknown.next_parameter)
            ]
            rows = await connection.fetch(union(statements), *unknown.values, *sample.document_ids.values())
            if any(row["old"] for row in rows):
                return None
            sample.count(unknown, rows)
        return sample.weights(terms)

    async def _sample(
        self, connection: Connection, indexes: Sequence[Index], selection: Selection
    ) -> _Sample:
        key = _key(indexes, selection)
        sample = self._samples.get(key)
        if sample is None:
            sample = self._samples[key] = _Sample.of(await connection.fetch(_SAMPLE, *map(list, key)))
        return sample


def _key(indexes: Sequence[Index], selection: Selection) -> _Key:
    searched = [(name, index.partition_id) for index in indexes for name in index.collection_ids]
    return (
        tuple(name for name, _ in searched),
        tuple(partition_id for _, partition_id in searched),
        tuple(selection.principals),
    )


async def hits_among(
    connection: Connection,
    indexes: Sequence[Index],
    terms: Terms,
    weights: Weights,
    chunk_ids: Sequence[int],
    selection: Selection,
    limit: int,
) -> list[list[Hit]]:
    """Return the best hits of each index among chunks, of those that are selected and may be read."""
    mean, weight = terms.next_parameter, f"(${terms.next_parameter + 1}::float8[])[{{n}}]"
    condition = RowCondition.of(selection, first_parameter=terms.next_parameter + 3)
    statements = [
        _AMONG.format(
            partition_id=index.partition_id,
            table=index.table,
            features=index.features,
            feature_names=FEATURE_NAMES,
            selected=condition.within(index),
            chunk_ids=f"${terms.next_parameter + 2}",
            length=_LENGTH,
            counts=terms.counts,
            score=terms.score(weight, f"${mean}::float8"),
            matches=terms.matches,
            limit=limit,
        )
        for index in indexes
    ]
    rows = await connection.fetch(
        union(statements), *terms.values, *weights, chunk_ids, *condition.arguments(indexes)
    )
    return [hits for hits, _ in by_index(rows, indexes)]


async def is_readable_whole(connection: Connection, index: Index, selection: Selection) -> bool:
    """Tell whether the partition holds nothing else than what the caller may read of these collections."""
    is_whole: bool = await connection.fetchval(
        _WHOLE, index.partition_id, index.collection_ids, selection.principals
    )
    return is_whole
