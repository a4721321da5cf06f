"""Right, refused and wrong answers of `POST /api/tables/query` on a suite of its own."""

import base64
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from groundline_cli.ingestion import ensure_collection, ingest_documents
from groundline_client import AsyncClient
from groundline_client.models import QueryTablesResponse, TableAnswerRow

from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.running import MeasurementError, Report
from groundline_benchmarks.tables.files import table_files
from groundline_benchmarks.tables.questions import Question, questions

type Outcome = Literal["right", "refused", "wrong"]

COLLECTION: Final = "tables"
RIGHT_SHARE: Final = 0.9
REFUSED_SHARE: Final = 0.95
_TOLERANCE: Final = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Outcomes of the questions, by their kind, and those that were not as they should be."""

    outcomes: Mapping[str, Counter[Outcome]]
    missed: Sequence[tuple[Question, Outcome, str]] = field(default_factory=list)

    def share(self, outcome: Outcome, *, of_refused: bool) -> float:
        """Return the share of an outcome among the questions that have an answer, or that have none."""
        counts: Counter[Outcome] = Counter()
        for kind, found in self.outcomes.items():
            if (kind == "refused") == of_refused:
                counts += found
        return counts[outcome] / max(1, counts.total())

    def goals(self) -> list[Goal]:
        wrong_sums = sum(
            self.outcomes.get(kind, Counter[Outcome]())["wrong"] for kind in ("sum", "average", "by")
        )
        return [
            Goal(
                "right, of questions with an answer",
                self.share("right", of_refused=False),
                RIGHT_SHARE,
                is_minimum=True,
            ),
            Goal(
                "refused, of questions without",
                self.share("refused", of_refused=True),
                REFUSED_SHARE,
                is_minimum=True,
            ),
            Goal("wrong sums and averages", wrong_sums, 0),
        ]


async def ask_tables(client: AsyncClient, seed: int, count: int, report: Report) -> TableFigures:
    """Bring the files in and ask `count` questions. Raises GatewayError, MeasurementError."""
    files = list(table_files(seed))
    report(f"{len(files)} files")
    await ensure_collection(client, COLLECTION)
    documents = [{"uri": file.name, "data": base64.b64encode(file.content).decode()} for file in files]
    ingested = await ingest_documents(client, documents, COLLECTION, total=len(files))
    if ingested.failures:
        raise MeasurementError(f"{len(ingested.failures)} files could not be ingested")
    report(f"{count} questions")
    outcomes: dict[str, Counter[Outcome]] = defaultdict(Counter)
    missed = []
    for question in questions(files, seed, count):
        answer = await client.query_tables(question.text, collection_ids=[COLLECTION])
        outcome = _outcome(question, answer)
        outcomes[question.kind][outcome] += 1
        if outcome != ("refused" if question.kind == "refused" else "right"):
            missed.append((question, outcome, answer.explanation or ", ".join(answer.unknown_words)))
    return TableFigures(outcomes, missed)


def _outcome(question: Question, answer: QueryTablesResponse) -> Outcome:
    if answer.plan is None:
        return "refused"
    if question.numbers is not None:
        found = {_label(question, row): _last_number(row) for row in answer.rows}
        is_right = found.keys() == question.numbers.keys() and all(
            _is_same(found[label], number) for label, number in question.numbers.items()
        )
    else:
        is_right = question.rows is not None and question.rows == {row.cells[0].text for row in answer.rows}
    return "right" if is_right else "wrong"


def _label(question: Question, row: TableAnswerRow) -> str:
    return "" if question.numbers is not None and "" in question.numbers else row.cells[0].text


def _last_number(row: TableAnswerRow) -> Decimal | None:
    number = row.cells[-1].number
    return None if number is None else Decimal(repr(number))


def _is_same(found: Decimal | None, right: Decimal | None) -> bool:
    if found is None or right is None:
        return found is right
    return abs(found - right) <= _TOLERANCE * max(Decimal(1), abs(right))
