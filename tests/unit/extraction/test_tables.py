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
from groundline_tests.extraction.files import opendocument
from reportlab.platypus import Flowable, SimpleDocTemplate, Table

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


def test_a_table_without_a_head_has_all_its_rows_and_no_names(read: Read) -> None:
    text, [table] = read("+---+---+\n| 0 | a |\n+---+---+\n| 1 | b |\n+---+---+\n", "a.rst")
    assert (table.columns, [row.cells for row in table.rows]) == (("", ""), [("0", "a"), ("1", "b")])
    assert [text[row.start :].split("\n")[0] for row in table.rows] == ["| 0 | a |", "| 1 | b |"]


def pdf(table: list[list[str]], *, is_repeated: bool) -> bytes:
    out = io.BytesIO()
    style = [("GRID", (0, 0), (-1, -1), 0.5, "black")]
    parts: list[Flowable] = [Table(table, repeatRows=int(is_repeated), style=style)]
    SimpleDocTemplate(out, pagesize=(400, 300)).build(parts)
    return out.getvalue()


@pytest.mark.parametrize("characters", [1 << 20, 300])
@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_table_over_pages_of_a_pdf_is_one(read: Read, is_repeated: bool, characters: int) -> None:
    rows = [["Model", "Year", "Weight"], *([f"DN-{n}", str(1990 + n), f"{n}.5 kg"] for n in range(30))]
    text, tables = read(pdf(rows, is_repeated=is_repeated), "a.pdf", characters=characters)
    found = [row for table in tables for row in table.rows]
    assert {(table.index, table.page, table.columns) for table in tables} == {
        (0, 1, ("Model", "Year", "Weight"))
    }
    assert [row.cells for row in found] == [tuple(row) for row in rows[1:]]
    assert [row.number for row in found] == list(range(2, 32))
    assert all(text.startswith(f"| {row.cells[0]} |", row.start) for row in found)
    assert text.count("\f", 0, found[-1].start) >= 2


@pytest.mark.parametrize(
    ("between", "head"),
    [
        ("\f", "City | 2023"),
        ("\f", "City | People"),
        ("\f", "Rome | big"),
        ("\f", "a | 5 | c"),
        ("\f\n\nWords.", "Part | Weight"),
        ("\f\n\n\f", "Rome | 5"),
        ("", "Part | Weight"),
    ],
)
def test_another_table_after_one_is_another(read: Read, between: str, head: str) -> None:
    first = "| Part | Weight |\n|---|---|\n| Pump | 5 |"
    _, tables = read(f"{first}\n\n{between}\n\n| {head} |\n|---|---|\n| Oslo | 7 |\n", "a.md")
    assert [table.index for table in tables] == [0, 1]


def html_table(*rows: str) -> str:
    return f"<h1>Sales</h1><table>{''.join(f'<tr>{row}' for row in rows)}</table>"


HEAD = "<th rowspan=2>Region<th colspan=2>2023<th colspan=2>2024"
QUARTERS = "<th>Q1<th>Q2<th>Q1<th>Q2"
NAMES = ("Region", "2023 Q1", "2023 Q2", "2024 Q1", "2024 Q2")


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ((HEAD, QUARTERS), NAMES),
        ((HEAD, QUARTERS.replace("th", "td")), NAMES),
        ((HEAD.replace("th", "td").replace(" rowspan=2", ""), "<td>" + QUARTERS.replace("th", "td")), NAMES),
        ((HEAD.replace("2023", "Sold").replace("2024", "Made"), "<th>2023<th>2024" * 2),
         ("Region", "Sold 2023", "Sold 2024", "Made 2023", "Made 2024")),
        (("<th colspan=5>Pumps", HEAD, QUARTERS), NAMES),
    ],
)  # fmt: skip
def test_a_head_of_several_rows_names_each_column(
    read: Read, rows: tuple[str, ...], names: tuple[str, ...]
) -> None:
    page = html_table(*rows, "<td>North<td>1<td>2<td>3<td>4", "<td>South<td>5<td>6<td>7<td>8")
    text, [table] = read(page, "a.html")
    assert table.columns == names
    assert table.name == ("Pumps" if "Pumps" in page else "Sales")
    assert [(row.number, row.cells[0]) for row in table.rows] == [
        (len(rows) + 1, "North"),
        (len(rows) + 2, "South"),
    ]
    assert text[table.rows[0].start :].startswith("| North | 1 | 2 | 3 | 4 |\n")


def test_a_row_below_a_merged_name_that_is_no_head_stays_a_row(read: Read) -> None:
    for cell in ("th", "td"):
        page = html_table(
            f"<{cell}>Who<{cell} colspan=2>Details", "<td>Bob<td>Paris<td>Baker", "<td>Eve<td>Rome<td>Cook"
        )
        _, [table] = read(page, "a.html")
        assert (table.columns, len(table.rows)) == (("Who", "Details", "Details"), 2)


def test_a_number_that_is_merged_in_html_counts_once_and_lines_between_rows_are_none(read: Read) -> None:
    page = html_table(
        "<th>Region<th>Q1<th>Q2",
        "<td rowspan=2>North<td colspan=2>5",
        "<td>6<td rowspan=2>7",
        "<td>South<td>8",
        "<td colspan=3>Europe",
        "<td>West<td>9<td>1",
    )
    text, [table] = read(page, "a.html")
    assert [(row.number, row.cells, row.numbers) for row in table.rows] == [
        (2, ("North", "5", "5"), {2: ""}),
        (3, ("North", "6", "7"), {0: ""}),
        (4, ("South", "8", "7"), {2: ""}),
        (6, ("West", "9", "1"), {}),
    ]
    assert "| Europe | Europe | Europe |" in text


def word_table(rows: Sequence[Sequence[str]], *merged: tuple[tuple[int, int], tuple[int, int]]) -> bytes:
    document = docx.Document()
    document.add_heading("Sales", 1)
    grid = document.add_table(len(rows), len(rows[0]))
    for (top, left), (bottom, right) in merged:
        grid.cell(top, left).merge(grid.cell(bottom, right))
    for at, row in enumerate(rows):
        for column, value in enumerate(row):
            if value:
                grid.cell(at, column).text = value
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def test_a_word_table_has_names_of_its_heads_and_its_merged_numbers_once(read: Read) -> None:
    rows = [["Region", "2023", "", "2024", ""], ["", "Q1", "Q2", "Q1", "Q2"]]
    rows += [["North", "1", "2", "3", "4"], ["South", "", "6", "7", ""]]
    merged = [((0, 0), (1, 0)), ((0, 1), (0, 2)), ((0, 3), (0, 4)), ((2, 1), (3, 1)), ((3, 3), (3, 4))]
    text, [table] = read(word_table(rows, *merged), "a.docx")
    assert (table.name, table.columns) == ("Sales", NAMES)
    assert [(row.number, row.cells, row.numbers) for row in table.rows] == [
        (3, ("North", "1", "2", "3", "4"), {}),
        (4, ("South", "1", "6", "7", "7"), {1: "", 4: ""}),
    ]
    assert text[table.rows[1].start :].startswith("| South | 1 | 6 |")


def ods(*rows: str) -> bytes:
    table = "".join(rows).replace("<row", "<table:table-row").replace("</row", "</table:table-row")
    return opendocument("spreadsheet", f"<table:table table:name='Prices'>{table}</table:table>")


def ods_cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"


def test_a_sheet_of_opendocument_has_references_and_its_merged_numbers_once(read: Read) -> None:
    merged = ods_cell("5", "table:number-rows-spanned='2'")
    content = ods(
        "<table:table-row table:number-rows-repeated='20000'><table:table-cell/></table:table-row>",
        f"<row><table:table-cell/>{ods_cell('Region')}{ods_cell('Sales')}</row>",
        f"<row><table:table-cell/>{ods_cell('North')}{merged}</row>",
        f"<row><table:table-cell/>{ods_cell('South')}<table:covered-table-cell/></row>",
        f"<table:table-row table:number-rows-repeated='2'><table:table-cell/>{ods_cell('West')}"
        f"{ods_cell('7')}</table:table-row>",
        "<table:table-row table:number-rows-repeated='1028553'><table:table-cell/></table:table-row>",
    )
    text, [table] = read(content, "a.ods")
    assert (table.sheet, table.left, table.columns) == ("Prices", 0, ("", "Region", "Sales"))
    assert [(row.number, row.cells[1:], row.numbers) for row in table.rows] == [
        (20_002, ("North", "5"), {}),
        (20_003, ("South", "5"), {2: ""}),
        (20_004, ("West", "7"), {}),
        (20_005, ("West", "7"), {}),
    ]
    assert text[table.rows[1].start :].startswith("Region: South\nSales: 5")


def test_a_sheet_with_more_empty_cells_before_a_cell_than_are_counted_has_no_references(read: Read) -> None:
    empty = "<table:table-cell table:number-columns-repeated='2000'/>"
    content = ods(
        f"<row>{empty}{ods_cell('A')}{ods_cell('B')}</row>",
        f"<row>{empty}{ods_cell('1')}{ods_cell('2')}</row>",
    )
    _, [table] = read(content, "a.ods")
    assert table.left == -1
