"""Quality of answers to questions with known answers: whether they hold it, cite it, and refuse without
it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from groundline_cli.evaluation.answers import Outcome, contains
from groundline_cli.evaluation.asking import Journal, ask_all
from groundline_cli.evaluation.loading import load_documents, set_settings
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet, Query
from groundline_cli.ingestion import ensure_collection
from groundline_client import AsyncClient


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


def known_answers(dataset: EvaluationSet) -> list[Query]:
    """Return the set's queries that name their answers and a document that holds them. Raises DatasetError if
    no query does."""
    found = [query for query in dataset.judged if query.answerable and query.answers]
    if not found:
        raise DatasetError(f"{dataset.directory / 'queries.jsonl'}: no query names its answer")
    return found


def spread(questions: Sequence[Query], most: int) -> list[Query]:
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
    await ensure_collection(client, collection, settings=set_settings(language))
    await load_documents(client, dataset, collection, without=without)


async def measure_quality(
    client: AsyncClient,
    dataset: EvaluationSet,
    questions: Sequence[Query],
    language: str,
    *,
    name: str,
    concurrency: int,
    on_answer: Callable[[], None] = lambda: None,
) -> AnswerQuality:
    """Ask every question of the whole set, then of the set without any document that answers one.

    The other paragraphs of the same articles stay, so that a refusal is not for want of passages.
    """
    gold = frozenset[str]().union(*(question.relevance for question in questions))

    async def ask(collection: str) -> list[Outcome]:
        outcomes = await ask_all(
            client,
            questions,
            collection,
            concurrency=concurrency,
            journal=Journal(None, ""),
            on_answer=on_answer,
        )
        return [outcomes[question.query_id] for question in questions]

    await load_collection(client, dataset, name, language)
    whole = list(zip(questions, await ask(name), strict=True))
    without: list[Outcome] = []
    if len(gold) < len(dataset.contents):
        rest = f"{name}-rest"
        await load_collection(client, dataset, rest, language, without=gold)
        without = await ask(rest)
    return AnswerQuality(
        questions=len(questions),
        removed_documents=len(gold),
        contains_answer=_share(contains(outcome.answer, question.answers) for question, outcome in whole),
        sources_contain_gold=_share(
            any(source in question.relevance for source in outcome.sources) for question, outcome in whole
        ),
        citations_gold=_share(
            document in question.relevance for question, outcome in whole for document in outcome.citations
        ),
        refused=_share(outcome.refused for _, outcome in whole),
        refused_without_gold=_share(outcome.refused for outcome in without),
    )


def _share(outcomes: Iterable[bool]) -> float:
    results = list(outcomes)
    return sum(results) / len(results) if results else 0.0
