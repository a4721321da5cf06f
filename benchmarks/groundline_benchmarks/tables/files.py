"""Files with a table each, in every format, from rows that are known."""

import csv
import io
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

import openpyxl

from groundline_benchmarks.extract.documents import Heading, Part, docx_of, html_of, pdf_of
from groundline_benchmarks.tables.subjects import SUBJECTS, Cell, Column, Language, Subject

FORMATS: Final = ("xlsx", "csv", "md", "html", "docx", "pdf")

_MAKERS: Final = (
    *("Altona", "Bellevue", "Corvin", "Dravia", "Elbtor", "Falkenau", "Gordan", "Hestia", "Ionas", "Jarvis"),
    *("Kolberg", "Lomond", "Mirabel", "Nordwind", "Orkan", "Palmira", "Quorum", "Rovinj", "Selva", "Tarvis"),
    *("Umbra", "Velden", "Wolga", "Xanten", "Ystad", "Zamora", "Aurich", "Brixen", "Cadiz", "Dover"),
)
_ROWS: Final = 14
_EMPTY_SHARE: Final = 0.05
_MONEY_DECIMALS: Final = 2


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table of a subject."""

    name: str
    content: bytes
    maker: str
    language: Language
    subject: Subject
    rows: Sequence[Sequence[Cell]]


def table_files(seed: int) -> Iterator[TableFile]:
    """Yield a file of each subject in each format, half of them German; some cells are empty, and every third
    table ends with its totals."""
    chance = random.Random(seed)  # noqa: S311 - drawn again by its seed
    for number, maker in enumerate(_MAKERS):
        subject = SUBJECTS[number % len(SUBJECTS)]
        form = FORMATS[number // len(SUBJECTS)]
        language: Language = "de" if number % 2 else "en"
        rows = [_with_gaps(subject.row(chance, 100 + number * 20 + row), chance) for row in range(_ROWS)]
        heads = [column.names[language] for column in subject.columns]
        title = f"{maker} {subject.title[language]}"
        totals = _totals(rows, language) if number % 3 == 0 else []
        content = _content(form, title, heads, [*rows, *totals], subject.columns, language)
        name = f"{maker}-{subject.title[language]}.{form}".lower()
        yield TableFile(name, content, maker, language, subject, rows)


def _with_gaps(row: Sequence[Cell], chance: random.Random) -> Sequence[Cell]:
    first, *others = row
    return [
        first,
        *(None if isinstance(cell, Decimal) and chance.random() < _EMPTY_SHARE else cell for cell in others),
    ]


def _totals(rows: Sequence[Sequence[Cell]], language: Language) -> list[Sequence[Cell]]:
    sums: list[Cell] = ["Summe" if language == "de" else "Total"]
    for column in list(zip(*rows, strict=True))[1:]:
        numbers = [cell for cell in column if isinstance(cell, Decimal)]
        sums.append(sum(numbers, Decimal(0)) if numbers else None)
    return [sums]


def _content(
    form: str,
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    columns: Sequence[Column],
    language: Language,
) -> bytes:
    if form == "xlsx":
        return _sheet(title, heads, rows, columns)
    grid = [
        list(heads),
        *([_written(cell, at, language) for cell, at in zip(row, columns, strict=True)] for row in rows),
    ]
    if form == "csv":
        out = io.StringIO()
        csv.writer(out, delimiter=";" if language == "de" else ",").writerows(grid)
        return out.getvalue().encode()
    prose = (
        "Die folgende Tabelle zeigt, was wir für das letzte Jahr erhoben haben; sie wird jährlich erneuert."
        if language == "de"
        else "The following table shows what we have found for the last year, and is made again in spring."
    )
    parts: list[Part] = [Heading(1, title), prose, grid]
    match form:
        case "md":
            lines = [f"| {' | '.join(row)} |" for row in grid]
            lines.insert(1, "|" + "---|" * len(heads))
            return f"# {title}\n\n{prose}\n\n{'\n'.join(lines)}\n".encode()
        case "html":
            return html_of(parts)
        case "docx":
            return docx_of(parts)
        case _:
            return pdf_of([parts])


def _written(cell: Cell, column: Column, language: Language) -> str:
    """Return a cell as documents of the language write it."""
    match cell:
        case None:
            return "–"
        case Decimal():
            decimals = column.decimals or (_MONEY_DECIMALS if column.unit == "EUR" else 0)
            text = f"{cell:,.{decimals}f}"
            if language == "de":
                text = text.replace(",", " ").replace(".", ",").replace(" ", ".")
            return f"{text} {column.unit}".strip()
        case date():
            return f"{cell:%d.%m.%Y}" if language == "de" else cell.isoformat()
        case _:
            return cell


def _sheet(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], columns: Sequence[Column]
) -> bytes:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.append([title])
    sheet.append([])
    sheet.append(list(heads))
    for row in rows:
        sheet.append([float(cell) if isinstance(cell, Decimal) else cell for cell in row])
        for cell, column in zip(sheet[sheet.max_row], columns, strict=True):
            if column.unit == "EUR" and cell.value is not None:
                cell.number_format = '#,##0.00 "EUR"'
            elif column.unit and cell.value is not None:
                cell.number_format = f'0.0 "{column.unit}"'
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()
