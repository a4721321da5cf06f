"""Retrieval quality: evaluation sets and the measures over them, as pure functions.

Measures follow trec_eval and BEIR: recall over the relevant documents of a query, the reciprocal rank of
the first of them, and nDCG with linear gain and a logarithmic discount, each averaged over queries. A
relevance of 0 or less counts as irrelevant.
"""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

__all__ = [
    "DEPTHS",
    "RANK_DEPTH",
    "DatasetError",
    "EvaluationSet",
    "Query",
    "Scores",
    "content_share",
    "ndcg",
    "recall",
    "reciprocal_rank",
    "score",
    "unique",
]

DEPTHS: Final = (5, 10, 20)
"""Ranks at which recall and content share are taken."""
RANK_DEPTH: Final = 10
"""Rank at which MRR and nDCG are cut."""


class DatasetError(Exception):
    """A file of an evaluation set is missing or wrong; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question and the relevance of the documents that answer it, by id; every relevance is above 0."""

    query_id: str
    text: str
    relevance: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A folder with corpus.jsonl (id, title, text), queries.jsonl (id, text) and qrels.tsv."""

    directory: Path
    queries: Sequence[Query]
    """Queries with at least one relevant document, in the order of queries.jsonl."""
    contents: Mapping[str, bytes]
    """Digest of each document's text, by id: documents of equal text have equal digests."""

    @classmethod
    def load(cls, directory: Path) -> "EvaluationSet":
        """Read queries and judgements; of the corpus only digests are kept. Raises DatasetError."""
        corpus = directory / "corpus.jsonl"
        contents: dict[str, bytes] = {}
        for number, row in _rows(corpus):
            document_id = _text(corpus, number, row, "id")
            if document_id in contents:
                raise DatasetError(f"{corpus}:{number}: the id {document_id} is there twice")
            text = _text(corpus, number, row, "text")
            contents[document_id] = hashlib.sha256(text.encode()).digest()
        judgements = _judgements(directory / "qrels.tsv", contents)
        queries = []
        for number, row in _rows(directory / "queries.jsonl"):
            query_id = _text(directory / "queries.jsonl", number, row, "id")
            if relevance := judgements.get(query_id):
                text = _text(directory / "queries.jsonl", number, row, "text")
                queries.append(Query(query_id, text, relevance))
        if not queries:
            raise DatasetError(f"{directory / 'queries.jsonl'}: no query has a relevant document")
        return cls(directory, queries, contents)

    def documents(self) -> Iterator[tuple[str, str, str]]:
        """Yield id, title and text of every document, read from the file one at a time.

        A row without a title that names a document of documents.jsonl has that document's title.
        """
        path = self.directory / "corpus.jsonl"
        titles = _titles(self.directory / "documents.jsonl")
        for number, row in _rows(path):
            title = row.get("title") or titles.get(str(row.get("document_id")), "")
            document_id = _text(path, number, row, "id")
            yield document_id, title if isinstance(title, str) else "", _text(path, number, row, "text")


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over queries, each 0 to 1."""

    recall: Mapping[int, float]
    """Share of the relevant documents among the first k, by k."""
    content_share: Mapping[int, float]
    """Share of the relevant *texts* among the first k, by k: a duplicate is as good as the one judged."""
    mrr: float
    ndcg: float


def score(rankings: Iterable[tuple[Query, Sequence[str]]], contents: Mapping[str, bytes]) -> Scores:
    """Average the measures over at least one query; a ranking holds ids of documents, each once, best
    first."""
    results = list(rankings)
    return Scores(
        recall={k: fmean(recall(ranking, query.relevance, k) for query, ranking in results) for k in DEPTHS},
        content_share={
            k: fmean(content_share(ranking, query.relevance, contents, k) for query, ranking in results)
            for k in DEPTHS
        },
        mrr=fmean(reciprocal_rank(ranking, query.relevance, RANK_DEPTH) for query, ranking in results),
        ndcg=fmean(ndcg(ranking, query.relevance, RANK_DEPTH) for query, ranking in results),
    )


def unique(ids: Iterable[str]) -> list[str]:
    """Return each id once, where it came first: a document counts by its best chunk."""
    return list(dict.fromkeys(ids))


def recall(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant ids that are among the first k."""
    return len(set(ranking[:k]) & set(relevant)) / len(relevant)


def content_share(
    ranking: Sequence[str], relevant: Collection[str], contents: Mapping[str, bytes], k: int
) -> float:
    """Return the share of the relevant ids' distinct contents that are among the contents of the first k."""
    golden = {contents[document_id] for document_id in relevant}
    return len(golden & {contents.get(document_id) for document_id in ranking[:k]}) / len(golden)


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return 1 / rank of the first relevant id among the first k, or 0."""
    return next((1 / rank for rank, item in enumerate(ranking[:k], start=1) if item in relevant), 0.0)


def ndcg(ranking: Sequence[str], relevance: Mapping[str, int], k: int) -> float:
    """Compute normalised discounted cumulative gain at k (Järvelin and Kekäläinen, TOIS 2002), gain =
    relevance."""
    ideal = sorted(relevance.values(), reverse=True)[:k]
    return _dcg([relevance.get(item, 0) for item in ranking[:k]]) / _dcg(ideal)


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _judgements(path: Path, known: Collection[str]) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        if number == 1:
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not fields[2].removeprefix("-").isdecimal():
            raise DatasetError(f"{path}:{number}: not query_id, doc_id and a whole number between tabs")
        query_id, document_id, relevance = fields[0], fields[1], int(fields[2])
        if document_id not in known:
            raise DatasetError(f"{path}:{number}: corpus.jsonl holds no document {document_id}")
        if relevance > 0:
            judgements.setdefault(query_id, {})[document_id] = relevance
    return judgements


def _titles(path: Path) -> dict[str, str]:
    """Read titles by document; empty if the file does not exist."""
    if not path.exists():
        return {}
    return {
        _text(path, number, row, "id"): title
        for number, row in _rows(path)
        if isinstance(title := row.get("title"), str)
    }


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise DatasetError(f"{path}:{number}: not a JSON object")
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers from 1."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: {error.strerror if isinstance(error, OSError) else error}") from error


def _text(path: Path, number: int, row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise DatasetError(f"{path}:{number}: {key} must be a text that is not empty")
    return value
