"""Questions to the tables, with what is right."""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from groundline_benchmarks.tables.files import TableFile
from groundline_benchmarks.tables.subjects import Ask, Cell, Language

_OTHER: Final[Mapping[Language, Language]] = {"en": "de", "de": "en"}


@dataclass(frozen=True, slots=True)
class Question:
    """A question; right are the numbers by their labels ("" for a single one), or the rows with these first
    cells, or, with neither, a refusal."""

    text: str
    kind: str
    file: str
    language: Language
    numbers: Mapping[str, Decimal | None] | None = None
    rows: frozenset[str] | None = None


def questions(files: Sequence[TableFile], seed: int, count: int) -> list[Question]:
    """Return questions to all files, one in four in the other language than its table."""
    chance = random.Random(seed)  # noqa: S311 - drawn again by its seed
    asked = [(file, ask) for file in files for ask in file.subject.asks]
    chance.shuffle(asked)
    made = (
        question for number, (file, ask) in enumerate(asked) for question in _made(file, ask, number, chance)
    )
    return [question for question, _ in zip(made, range(count), strict=False)]


def _made(file: TableFile, ask: Ask, number: int, chance: random.Random) -> Iterator[Question]:
    language = _OTHER[file.language] if number % 4 == 0 else file.language
    row = chance.choice([row for row in file.rows if ask.kind != "lookup" or row[ask.column] is not None])
    bound = _bound(file, ask, chance)
    words = {
        "e": str(row[0]),
        "of": f"{file.maker} {file.subject.title[file.language]}",
        "n": _spelled(bound / ask.scale, language),
    }
    rows, numbers = None, None
    column = [(str(each[0]), each[ask.column]) for each in file.rows]
    known = [(name, cell) for name, cell in column if isinstance(cell, Decimal)]
    values = [cell for _, cell in known]
    match ask.kind:
        case "lookup":
            numbers = {str(row[0]): _number(row[ask.column])}
        case "below":
            rows = frozenset(name for name, cell in known if cell < bound)
        case "above":
            rows = frozenset(name for name, cell in known if cell > bound)
        case "count":
            numbers = {"": Decimal(len({name for name, cell in known if cell > bound}))}
        case "highest" | "lowest":
            best = max(values) if ask.kind == "highest" else min(values)
            rows = frozenset(name for name, cell in known if cell == best)
        case "sum" | "average":
            numbers = {"": sum(values, Decimal(0)) / (len(values) if ask.kind == "average" else 1)}
        case "by":
            groups: dict[str, list[Decimal]] = defaultdict(list)
            for each in file.rows:
                if isinstance(cell := each[ask.column], Decimal):
                    groups[str(each[ask.group])].append(cell)
            is_average = "average" in ask.texts["en"]
            numbers = {
                group: sum(cells, Decimal(0)) / (len(cells) if is_average else 1)
                for group, cells in groups.items()
            }
        case _:
            pass
    yield Question(ask.texts[language].format(**words), ask.kind, file.name, language, numbers, rows)


def _bound(file: TableFile, ask: Ask, chance: random.Random) -> Decimal:
    """Return a number that some of the column's are below and others above."""
    cells = sorted(cell for row in file.rows if isinstance(cell := row[ask.column], Decimal))
    return cells[chance.randint(len(cells) // 3, len(cells) * 2 // 3)] if cells else Decimal(7)


def _number(cell: Cell) -> Decimal | None:
    return cell if isinstance(cell, Decimal) else None


def _spelled(number: Decimal, language: Language) -> str:
    text = f"{number.normalize():,f}"
    if "." not in text and "," not in text:
        return text
    return text.replace(",", " ").replace(".", ",").replace(" ", ".") if language == "de" else text
