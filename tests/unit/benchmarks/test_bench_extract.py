"""The scores of reading fall with what is missing, added, moved or in the wrong place."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from groundline_benchmarks.extract.documents import Document, Heading, documents
from groundline_benchmarks.extract.scoring import Reading, Scores, score, tables_of

TABLE = [["Region", "Q1", "Q2"], ["North n3", "1.5", ""], ["South n4", "", "2.5"]]
DOCUMENT = Document(
    "a",
    "pdf",
    "a.pdf",
    b"",
    [[Heading(1, "Valve n1"), "Some words n2 follow here."], [TABLE, "And others n5 as well."]],
    has_pages=True,
)
TEXT = (
    "# Valve n1\n\nSome words n2 follow here.\n\n\f\n\n"
    "| Region | Q1 | Q2 |\n|---|---|---|\n| North n3 | 1.5 |  |\n| South n4 |  | 2.5 |\n\n"
    "And others n5 as well."
)


def scored(text: str, headings: Sequence[str] = ("Valve n1",)) -> Scores:
    return score(DOCUMENT, Reading(text, headings))


def test_what_is_read_whole_has_all() -> None:
    assert scored(TEXT) == Scores(recall=1, precision=1, order=1, cells=1, headings=1, pages=1)


def test_words_that_are_lost_or_made_up_are_counted() -> None:
    lost = scored(TEXT.replace("follow here", ""))
    assert lost.recall == pytest.approx(19 / 21)
    assert lost.precision == 1
    added = scored(TEXT + " and more words")
    assert added.recall == 1
    assert added.precision == pytest.approx(21 / 24)


def test_the_order_falls_by_the_words_that_would_have_to_be_changed() -> None:
    assert scored(TEXT.replace("Some words", "words Some")).order == pytest.approx(1 - 2 / 21)
    assert scored("").order == 0


def test_a_cell_counts_in_its_place_only() -> None:
    assert scored(TEXT.replace("| North n3 | 1.5 |  |", "| North n3 |  | 1.5 |")).cells == pytest.approx(
        7 / 9
    )
    assert scored(TEXT.replace("|", " ")).cells == 0


def test_headings_and_pages_are_those_that_are_right() -> None:
    assert scored(TEXT, ["Some words n2"]).headings == 0
    assert scored(TEXT.replace("\f", "")).pages == 0.5


def test_records_are_tables_whose_names_are_not_words_of_theirs() -> None:
    table = replace(DOCUMENT, format="csv", pages=[[TABLE]], has_pages=False)
    text = "Region: North n3\nQ1: 1.5\n\nRegion: South n4\nQ2: 2.5"
    assert tables_of(table, text) == [TABLE]
    assert score(table, Reading(text, ())) == Scores(1, 1, 1, cells=1, headings=None, pages=None)


def test_documents_are_the_same_for_the_same_seed_and_hold_what_is_said_of_them() -> None:
    one, again = (list(documents(7, with_scans=False)) for _ in range(2))
    assert [document.pages for document in one] == [document.pages for document in again]
    assert {document.format for document in one} >= {
        "pdf",
        "docx",
        "html",
        "odt",
        "epub",
        "eml",
        "pptx",
        "xlsx",
    }
    other = next(iter(documents(8, with_scans=False)))
    assert other.pages != one[0].pages
