"""Quality of answers to questions with known answers: whether they hold it, cite it, and refuse without
it."""

import asyncio
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groundline_cli.evaluation import DatasetError, EvaluationSet
from groundline_cli.ingestion import ensure_collection, ingest_documents
from groundline_client import AsyncClient
from groundline_client.models import AnswerResponse, FinishReason

__all__ = ["AnswerQuality", "KnownAnswer", "known_answers", "load_collection", "measure_quality", "spread"]

# The maximum: a row is one chunk unless it is longer.
_CHUNK_SIZE: Final = 20_000
_BATCH_DOCUMENTS: Final = 64
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A question, its answer in the words of the corpus, and the documents that hold it."""

    query: str
    answer: str
    documents: frozenset[str]


@dataclass(frozen=True, slots=True)
class AnswerQuality:
    """Shares, 0 to 1."""

    questions: int
    removed_documents: int
    contains_answer: float
    """Share of questions whose answers hold the gold answer, letter case and punctuation aside."""
    sources_contain_gold: float
    """Share of questions for which the gold document was among the sources."""
    citations_gold: float
    """Share of citations that point at the gold document."""
    refused: float
    """Share of questions that were refused although the answer is there."""
    refused_without_gold: float
    """Share of questions that were refused with the gold documents removed."""


def known_answers(dataset: EvaluationSet, path: Path) -> list[KnownAnswer]:
    """Return the set's queries that name their `answer`. Raises DatasetError if no query does."""
    answers: dict[str, str] = {}
    for line in (path / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("answerable", True) and row.get("answer"):
            answers[row["id"]] = row["answer"]
    found = [
        KnownAnswer(query.text, answers[query.query_id], frozenset(query.relevance))
        for query in dataset.queries
        if query.query_id in answers
    ]
    if not found:
        raise DatasetError(f"{path / 'queries.jsonl'}: no query names its answer")
    return found


def spread(questions: Sequence[KnownAnswer], most: int) -> list[KnownAnswer]:
    """Choose `most` of the questions, evenly over the set."""
    count = min(most, len(questions))
    return [questions[number * len(questions) // count] for number in range(count)]


async def load_collection(
    client: AsyncClient,
    dataset: EvaluationSet,
    collection: str,
    language: str,
    *,
    without: frozenset[str] = frozenset(),
) -> None:
    """Load each row of the set as a document, except those of the ids in `without`.

    Raises DatasetError, GatewayError.
    """
    settings = {"chunking": {"chunkSize": _CHUNK_SIZE, "chunkOverlap": 0}, "lexical": {"language": language}}
    await ensure_collection(client, collection, settings=settings)
    documents = [
        {"uri": document_id, "title": title, "text": text, "mimeType": "text/plain"}
        for document_id, title, text in dataset.documents()
        if document_id not in without
    ]
    if not documents:
        raise DatasetError(f"{dataset.directory}: no document is left")
    report = await ingest_documents(
        client, documents, collection, total=len(documents), batch_documents=_BATCH_DOCUMENTS
    )
    if report.failures:
        raise DatasetError(f"{len(report.failures)} documents of {dataset.directory} could not be ingested")


async def measure_quality(
    client: AsyncClient,
    dataset: EvaluationSet,
    questions: Sequence[KnownAnswer],
    language: str,
    *,
    name: str,
    concurrency: int,
    on_answer: Callable[[], None] = lambda: None,
) -> AnswerQuality:
    """Ask every question of the whole set, then of the set without any document that answers one.

    The other paragraphs of the same articles stay, so that a refusal is not for want of passages.
    """
    gold = frozenset[str]().union(*(question.documents for question in questions))
    await load_collection(client, dataset, name, language)
    whole = await _ask(client, questions, name, concurrency, on_answer)
    if len(gold) < len(dataset.contents):
        rest = f"{name}-rest"
        await load_collection(client, dataset, rest, language, without=gold)
        without = await _ask(client, questions, rest, concurrency, on_answer)
    else:
        without = []
    cited = [(_cited_documents(answer), question) for answer, question in zip(whole, questions, strict=True)]
    citations = [document in question.documents for documents, question in cited for document in documents]
    return AnswerQuality(
        questions=len(questions),
        removed_documents=len(gold),
        contains_answer=_share(
            _normalized(question.answer) in _normalized(answer.answer)
            for answer, question in zip(whole, questions, strict=True)
        ),
        sources_contain_gold=_share(
            any(source.uri in question.documents for source in answer.sources)
            for answer, question in zip(whole, questions, strict=True)
        ),
        citations_gold=_share(citations),
        refused=_share(map(_is_refusal, whole)),
        refused_without_gold=_share(map(_is_refusal, without)),
    )


async def _ask(
    client: AsyncClient,
    questions: Sequence[KnownAnswer],
    collection: str,
    concurrency: int,
    on_answer: Callable[[], None],
) -> list[AnswerResponse]:
    free = asyncio.Semaphore(concurrency)

    async def one(question: KnownAnswer) -> AnswerResponse:
        async with free:
            answer = await client.answer(question.query, collection_ids=[collection])
            on_answer()
            return answer

    return await asyncio.gather(*map(one, questions))


def _cited_documents(answer: AnswerResponse) -> list[str]:
    """Return the uri of each citation's source: the id of the document in the set."""
    uris = {source.number: source.uri for source in answer.sources}
    citations = answer.completed.citations if answer.completed else ()
    return [uris.get(citation.source_number, "") for citation in citations]


def _is_refusal(answer: AnswerResponse) -> bool:
    return answer.completed is not None and answer.completed.finish_reason == FinishReason.NO_ANSWER


def _normalized(text: str) -> str:
    """Return the words in one case, between spaces, so that an answer is found as whole words."""
    return f" {' '.join(_WORD.findall(unicodedata.normalize('NFKC', text).casefold()))} "


def _share(outcomes: Iterable[bool]) -> float:
    results = list(outcomes)
    return sum(results) / len(results) if results else 0.0
