"""Tables in PDF files, with lines around their cells and without."""

from typing import Any

import pytest
from groundline_tests.extraction.pdf import GRID, PROSE, lines, table, wrapped
from reportlab.pdfgen.canvas import Canvas

QUARTERS = [
    ["Region", "Q1", "Q2", "Q3", "Q4"],
    ["North", "580", "317", "", "0.5 %"],
    ["South", "", "12", "3", "4"],
]


def test_a_ruled_table_keeps_its_empty_cells(read: Any) -> None:
    assert read(lambda canvas: table(canvas, QUARTERS, GRID)).text == (
        "| Region | Q1 | Q2 | Q3 | Q4 |\n|---|---|---|---|---|\n"
        "| North | 580 | 317 |  | 0.5 % |\n| South |  | 12 | 3 | 4 |"
    )


HALVES = [["Region", "2025", "", "2026", ""], ["", "Q1", "Q2", "Q1", "Q2"], ["North", "1", "2", "3", "4"]]
YEARS = [("SPAN", (1, 0), (2, 0)), ("SPAN", (3, 0), (4, 0))]
NAMED = "| Region | 2025 Q1 | 2025 Q2 | 2026 Q1 | 2026 Q2 |\n|---|---|---|---|---|\n| North | 1 | 2 | 3 | 4 |"


@pytest.mark.parametrize(
    ("rows", "spans"),
    [
        (HALVES, [*YEARS, ("SPAN", (0, 0), (0, 1))]),
        ([["", *HALVES[0][1:]], ["Region", *HALVES[1][1:]], HALVES[2]], YEARS),
    ],
    ids=["a head that comes down", "an empty corner"],
)
def test_a_head_of_two_rows_names_columns_by_both(read: Any, rows: list[list[str]], spans: list[Any]) -> None:
    found = read(lambda canvas: table(canvas, rows, GRID, *spans))
    assert found.text == NAMED
    [name] = [line for line in found.lines if line.start == NAMED.index("2025 Q2")]
    [value] = [line for line in found.lines if line.start == NAMED.index("2 | 3")]
    assert name.bottom - name.top > 1.5 * (value.bottom - value.top), "it reaches over both rows"


def test_a_title_over_all_columns_of_a_table_stands_before_it(read: Any) -> None:
    rows = [["Sales in EUR", "", "", "", ""], *HALVES]
    spans = [("SPAN", (0, 0), (4, 0)), *((name, (a, b + 1), (c, d + 1)) for name, (a, b), (c, d) in YEARS)]
    found = read(lambda canvas: table(canvas, rows, GRID, *spans, ("SPAN", (0, 1), (0, 2))))
    assert found.text == f"Sales in EUR\n\n{NAMED}"


def test_a_merged_cell_among_the_rows_says_the_same_in_each_of_its_places(read: Any) -> None:
    rows = [["Valve", "Spring", "Nut"], ["A", "steel", ""], ["", "brass", "lead"]]
    spans = [("SPAN", (1, 1), (2, 1)), ("SPAN", (0, 1), (0, 2))]
    assert read(lambda canvas: table(canvas, rows, GRID, *spans)).text.splitlines()[2:] == [
        "| A | steel | steel |",
        "| A | brass | lead |",
    ]


def test_a_cell_of_several_lines_is_one(read: Any) -> None:
    rows = [["Valve", "Note"], ["A", "opens at\n41 degrees"]]
    assert read(lambda canvas: table(canvas, rows, GRID)).text.endswith("| A | opens at 41 degrees |")


def test_a_table_without_lines_is_told_by_its_columns(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        lines(canvas, wrapped(PROSE, 90))
        table(canvas, QUARTERS)
        lines(canvas, wrapped(PROSE, 90), y=400)

    before, found, after = read(draw).text.split("\n\n")
    assert before == after == PROSE.strip()
    assert found.splitlines()[2:] == ["| North | 580 | 317 |  | 0.5 % |", "| South |  | 12 | 3 | 4 |"]


CENTRE = ("ALIGN", (0, 0), (-1, -1), "CENTER")
RIGHT = ("ALIGN", (1, 2), (-1, -1), "RIGHT")
SPACED = [*HALVES, ["South", "10", "20", "30", "40"]]
SPACED_NAMED = f"{NAMED}\n| South | 10 | 20 | 30 | 40 |"


@pytest.mark.parametrize(
    ("x", "above"),
    [
        (46, "The settings of all valves, in bar, as they were read on the last day of each quarter"),
        (105, "Sales in EUR"),
    ],
    ids=["a paragraph", "a caption"],
)
def test_what_is_above_a_table_without_lines_names_no_column(read: Any, x: float, above: str) -> None:
    def draw(canvas: Canvas) -> None:
        table(canvas, QUARTERS, CENTRE)
        canvas.drawString(x, 557, above)

    before, found = read(draw).text.split("\n\n")
    assert before == above
    assert found.startswith("| Region | Q1 | Q2 | Q3 | Q4 |\n")


def test_a_name_that_stands_over_no_certain_columns_is_no_part_of_theirs(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        table(canvas, [["Region", "Q1", "Q2", "Q3"], *([name, "1", "2", "3"] for name in "ABC")], CENTRE)
        canvas.drawString(118, 574, "2025")

    assert "| Region | Q1 | Q2 | Q3 |\n" in read(draw).text


@pytest.mark.parametrize(
    ("rows", "style"),
    [
        (SPACED, YEARS),
        (SPACED, [*YEARS, CENTRE]),
        ([["", *HALVES[0][1:]], ["Region", *HALVES[1][1:]], *SPACED[2:]], [*YEARS, CENTRE, RIGHT]),
    ],
    ids=["at the left", "in the middle", "an empty corner"],
)
def test_a_head_of_two_rows_without_lines_names_each_column_by_both(
    read: Any, rows: list[list[str]], style: list[Any]
) -> None:
    assert read(lambda canvas: table(canvas, rows, *style)).text == SPACED_NAMED


@pytest.mark.parametrize("style", [GRID, CENTRE], ids=["lines", "spaces"])
def test_years_below_names_of_several_columns_are_part_of_a_head(read: Any, style: Any) -> None:
    rows = [["", "Revenue", "", "Costs", ""], ["Region", *["2024", "2025"] * 2], *SPACED[2:]]
    assert read(lambda canvas: table(canvas, rows, *YEARS, style)).text.startswith(
        "| Region | Revenue 2024 | Revenue 2025 | Costs 2024 | Costs 2025 |\n"
    )


def test_a_name_alone_in_the_middle_of_all_columns_but_the_first_is_part_of_theirs(read: Any) -> None:
    rows = [["", "Revenue", ""], ["Region", "2024", "2025"], ["North", "1", "2"], ["South", "3", "4"]]
    assert read(lambda canvas: table(canvas, rows, YEARS[0], CENTRE)).text.startswith(
        "| Region | Revenue 2024 | Revenue 2025 |\n"
    )


def test_names_that_go_on_in_a_second_row_are_whole(read: Any) -> None:
    rows = [["Model", "Net", "Gross"], ["", "weight", "weight"], ["A", "1", "2"], ["B", "3", "4"]]
    assert read(lambda canvas: table(canvas, rows)).text.startswith("| Model | Net weight | Gross weight |\n")
    words = [["Part", "Inside", "Outside"], ["", "steel", "brass"], ["B", "lead", "zinc"]]
    assert "| Part | Inside | Outside |\n" in read(lambda canvas: table(canvas, words)).text
