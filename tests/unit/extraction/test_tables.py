"""Tables of documents as readers find them, and where their rows begin in the text."""

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import docx
import openpyxl
import pytest
from groundline_extraction.documents import GivenDocument
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.tables import TableRows

type Read = Callable[..., tuple[str, list[TableRows]]]


@pytest.fixture(scope="module")
def read() -> Iterator[Read]:
    with Sandbox(ReaderLimits()) as sandbox:

        def reading(
            content: bytes | str, uri: str, *, characters: int = 1 << 20
        ) -> tuple[str, list[TableRows]]:
            extractor = DocumentExtractor(sandbox, segment_characters=characters)
            segments = list(extractor.read(GivenDocument(content, uri=uri)).segments)
            text = "".join(segment.text for segment in segments)
            return text, [table for segment in segments for table in segment.tables]

        yield reading


def workbook(rows: Sequence[Sequence[Any]], change: Callable[[Any], None] = lambda sheet: None) -> bytes:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.title = "Prices"
    for row in rows:
        sheet.append(row)
    change(sheet)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_a_sheet_keeps_its_columns_and_the_numbers_of_its_rows(read: Read) -> None:
    def shown(sheet: Any) -> None:
        sheet["B4"].number_format = '0.0 "kg"'

    rows: list[list[Any]] = [["Pumps of 2024"], [], ["Model", "Weight"], ["DN-6", 2.756], ["DN-8", 3]]
    text, [table] = read(workbook(rows, shown), "a.xlsx")
    assert (table.sheet, table.name, table.columns, table.left) == (
        "Prices",
        "Pumps of 2024",
        ("Model", "Weight"),
        0,
    )
    assert [(row.number, row.cells) for row in table.rows] == [(4, ("DN-6", "2.8 kg")), (5, ("DN-8", "3"))]
    assert table.rows[0].numbers == {1: "2.756"}
    assert [text[row.start :].split("\n")[0] for row in table.rows] == ["Model: DN-6", "Model: DN-8"]


def test_a_merged_number_counts_once(read: Read) -> None:
    rows: list[list[Any]] = [["Region", "Sales"], ["North", 5], ["South", None], ["West", 7]]
    _, [table] = read(workbook(rows, lambda sheet: sheet.merge_cells("B2:B3")), "a.xlsx")
    assert [row.cells[1] for row in table.rows] == ["5", "5", "7"]
    assert [row.numbers for row in table.rows] == [{}, {1: ""}, {}]


def test_empty_rows_divide_the_tables_of_a_sheet(read: Read) -> None:
    rows = [["A", "B"], ["1", "2"], [], ["C", "D"], ["3", "4"]]
    _, tables = read(workbook(rows), "a.xlsx")
    assert [(table.index, table.columns, table.rows[0].number) for table in tables] == [
        (0, ("A", "B"), 2),
        (1, ("C", "D"), 5),
    ]


def test_rows_of_a_long_file_come_in_parts_of_one_table(read: Read) -> None:
    lines = "".join(f"{number},{'x' * 90}\n" for number in range(9000))
    text, tables = read(f"id,text\n{lines}", "a.csv", characters=200_000)
    rows = [row for table in tables for row in table.rows]
    assert len(tables) > 2
    assert {(table.index, table.columns) for table in tables} == {(0, ("id", "text"))}
    assert [row.cells[0] for row in rows] == list(map(str, range(9000)))
    assert [row.number for row in rows] == list(range(2, 9002))
    assert all(text.startswith(f"id: {row.cells[0]}\n", row.start) for row in rows)


def test_markdown_tables_are_found_with_their_headings_and_pages(read: Read) -> None:
    first = "# Pumps\n\n| A | **B** |\n|---|---|\n| 1 | [two](http://x) |\n"
    second = "## Valves\n\n| C | D |\n| :-- | --: |\n| a \\| b | |\n"
    code = "```\n| not | a table |\n|---|---|\n| 1 | 2 |\n```\n"
    text, tables = read(f"{first}\n\f\n{code}\n{second}", "a.md")
    assert [(table.index, table.name, table.page, table.columns) for table in tables] == [
        (0, "Pumps", 0, ("A", "B")),
        (1, "Valves", 2, ("C", "D")),
    ]
    [[one], [other]] = [table.rows for table in tables]
    assert (one.number, one.cells) == (2, ("1", "two"))
    assert other.cells == ("a | b", "")
    assert text[other.start :].startswith("| a \\| b | |")


def test_tables_of_html_and_word_are_found(read: Read) -> None:
    page = b"<h1>T</h1><table><tr><th>A<th>B<tr><td>1<td>2</table>"
    document = docx.Document()
    grid = document.add_table(2, 2)
    for cell, value in zip((cell for row in grid.rows for cell in row.cells), "AB12", strict=True):
        cell.text = value
    out = io.BytesIO()
    document.save(out)
    for content, name in ((page, "a.html"), (out.getvalue(), "a.docx")):
        _, [table] = read(content, name)
        assert (table.columns, [row.cells for row in table.rows]) == (("A", "B"), [("1", "2")])


def test_a_text_without_tables_has_none(read: Read) -> None:
    assert read("# Title\n\nWords | with | bars.\n", "a.md")[1] == []
    assert read("a,b\n", "a.csv")[1] == []
