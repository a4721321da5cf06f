"""Evaluation sets: documents, questions, and which documents answer them.

A relevance of 0 or less counts as irrelevant. What cannot be measured (a text that is empty, a judgement of a
document that is not there, a question that lost all of its judgements so) is passed over and counted.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from groundline_client.models import Verdict

_CORPUS: Final = "corpus.jsonl"
_QUERIES: Final = "queries.jsonl"
_JUDGEMENTS: Final = "qrels.tsv"
_CLAIMS: Final = "claims.jsonl"

_VERDICTS: Final = {
    "supported": Verdict.SUPPORTED,
    "refuted": Verdict.REFUTED,
    "not_found": Verdict.NOT_FOUND,
}

EMPTY_DOCUMENTS: Final = "documents without text"
EMPTY_QUERIES: Final = "questions without text"
UNKNOWN_DOCUMENTS: Final = "judgements of documents that are not there"
LOST_QUERIES: Final = "questions whose documents are not there"


class DatasetError(Exception):
    """A file of an evaluation set is missing or wrong; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question."""

    query_id: str
    text: str
    relevance: Mapping[str, int]
    """Relevance of the documents that answer it, by id; every one is above 0."""
    answers: Sequence[str] = ()
    """Texts of which an answer must contain one; empty if they are not known."""
    answerable: bool = True
    """Whether the documents hold the answer, so that it must not be refused."""
    kind: str = ""
    """Kind of question, by which figures are told apart."""


@dataclass(frozen=True, slots=True)
class LabelledClaim:
    """A claim, and what a person says of it by the documents."""

    text: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A folder with corpus.jsonl (id, title, text), queries.jsonl (id, text) and qrels.tsv.

    It may hold claims.jsonl (text, and verdict: supported, refuted or not_found), by which judges are judged.
    A query may name accepted `answers` (a list, or one as `answer`) and whether it is `answerable`; without
    that it is if it has answers or a relevant document.
    """

    directory: Path
    queries: Sequence[Query]
    """All questions, in the order of queries.jsonl."""
    contents: Mapping[str, bytes | None]
    """Digest of each document's text, by id: documents of equal text have equal digests. None: not known."""
    skipped: Mapping[str, int]
    """Numbers of what was passed over, by kind."""
    claims: Sequence[LabelledClaim] = ()

    @classmethod
    def load(cls, directory: Path, *, stored: Iterable[str] | None = None) -> "EvaluationSet":
        """Read queries and judgements; of the corpus only digests are kept. Raises DatasetError.

        `stored` are ids of documents that stand elsewhere, in place of corpus.jsonl.
        """
        skipped = Counter[str]()
        contents: Mapping[str, bytes | None]
        contents = _contents(directory / _CORPUS, skipped) if stored is None else dict.fromkeys(stored)
        judgements = _judgements(directory / _JUDGEMENTS, contents, skipped)
        queries = list(_queries(directory / _QUERIES, judgements, skipped))
        if not queries:
            raise DatasetError(f"{directory / _QUERIES}: no question is left")
        claims = list(_claims(directory / _CLAIMS)) if (directory / _CLAIMS).exists() else []
        return cls(directory, queries, contents, dict(skipped), claims)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.directory.resolve().name

    @property
    def judged(self) -> Sequence[Query]:
        """Queries with at least one relevant document."""
        return [query for query in self.queries if query.relevance]

    def documents(self) -> Iterator[tuple[str, str, str]]:
        """Yield id, title and text of every document, read from the file one at a time.

        A row without a title that names a document of documents.jsonl has that document's title.
        """
        path = self.directory / _CORPUS
        titles = _titles(self.directory / "documents.jsonl")
        for number, row in _rows(path):
            document_id = _text(path, number, row, "id")
            if document_id in self.contents:
                title = row.get("title") or titles.get(str(row.get("document_id")), "")
                yield document_id, title if isinstance(title, str) else "", _text(path, number, row, "text")


def _contents(path: Path, skipped: Counter[str]) -> dict[str, bytes | None]:
    contents: dict[str, bytes | None] = {}
    for number, row in _rows(path):
        document_id = _text(path, number, row, "id")
        if document_id in contents:
            raise DatasetError(f"{path}:{number}: the id {document_id} is there twice")
        if _is_empty(row):
            skipped[EMPTY_DOCUMENTS] += 1
        else:
            contents[document_id] = hashlib.sha256(_text(path, number, row, "text").encode()).digest()
    return contents


def _queries(
    path: Path, judgements: Mapping[str, Mapping[str, int]], skipped: Counter[str]
) -> Iterator[Query]:
    for number, row in _rows(path):
        query_id = _text(path, number, row, "id")
        if _is_empty(row):
            skipped[EMPTY_QUERIES] += 1
            continue
        relevance = judgements.get(query_id)
        answers = _answers(path, number, row)
        answerable = row.get("answerable")
        if not isinstance(answerable, bool | None):
            raise DatasetError(f"{path}:{number}: answerable must be true or false")
        if relevance == {} and answerable is not False:
            skipped[LOST_QUERIES] += 1
            continue
        if answerable is None:
            answerable = bool(relevance or answers)
        kind = row.get("kind", "")
        if not isinstance(kind, str):
            raise DatasetError(f"{path}:{number}: kind must be a text")
        text = _text(path, number, row, "text")
        yield Query(query_id, text, relevance or {}, answers, answerable, kind)


def _claims(path: Path) -> Iterator[LabelledClaim]:
    for number, row in _rows(path):
        verdict = row.get("verdict")
        if verdict not in _VERDICTS:
            raise DatasetError(f"{path}:{number}: verdict must be one of {', '.join(_VERDICTS)}")
        yield LabelledClaim(_text(path, number, row, "text"), _VERDICTS[verdict])


def _judgements(path: Path, known: Collection[str], skipped: Counter[str]) -> dict[str, dict[str, int]]:
    """Read relevances by query; a query whose relevant documents are all unknown has an empty one."""
    judgements: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        if number == 1:
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not fields[2].removeprefix("-").isdecimal():
            raise DatasetError(f"{path}:{number}: not query_id, doc_id and a whole number between tabs")
        query_id, document_id, relevance = fields[0], fields[1], int(fields[2])
        if relevance > 0:
            judged = judgements.setdefault(query_id, {})
            if document_id in known:
                judged[document_id] = relevance
        if document_id not in known:
            skipped[UNKNOWN_DOCUMENTS] += 1
    return judgements


def _answers(path: Path, number: int, row: Mapping[str, Any]) -> list[str]:
    answers = row.get("answers")
    if answers is None:
        answers = [row["answer"]] if row.get("answer") else []
    if not isinstance(answers, list) or not all(isinstance(one, str) for one in answers):
        raise DatasetError(f"{path}:{number}: answers must be a list of texts")
    return [answer for answer in answers if answer.strip()]


def _is_empty(row: Mapping[str, Any]) -> bool:
    text = row.get("text")
    return isinstance(text, str) and not text.strip()


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
