"""Readers that take files larger than memory: what comes in pieces is what would be read at once."""

import io
import json
import zipfile
from collections.abc import Iterator

import docx
import pytest
from groundline_extraction.encoding import MAX_LINE_CHARACTERS, lines_of
from groundline_extraction.formats import CSV, JSON, JSON_LINES, PLAIN
from groundline_extraction.readers.common import (
    PIECE_CHARACTERS,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    cut,
    joined,
    packed,
)
from groundline_extraction.readers.data import records, table
from groundline_extraction.readers.office import docx as docx_reader
from groundline_extraction.readers.web import html

LIMITS = ReaderLimits()
RECORDS = [
    {"name": "Valve", "size": {"height": 2.0, "unit": "mm"}, "tags": ["brass", "DN 4", None]},
    {"parts": [1, {"id": 2}, [3, 4], None, 5], "empty": [], "nothing": {}, "note": None},
    {"text": "two\nlines", "big": 12345678901234567890123, "share": 0.125, "is_spare": True, "": "unnamed"},
]
PAGE = """<!doctype html><html><head><title>Pump</title><link rel="stylesheet" href="a.css"></head><body>
<nav><a href="/">Home</a></nav><header>Company</header>
<main><header>Manual 7</header>Loose words <b>in bold</b>.<h1>The pump</h1>
<div><span>It <i>starts</i><br>slowly.</span><p>Then it runs.<p hidden>Not shown.</div>
<ul><li>One<ul><li>Below</li></ul></li><li>Two</li></ul><ol start="3"><li>Third</li><li>Fourth</li></ol>
<table><caption>Widths</caption><tr><th>Part</th><th colspan="2">Width</th></tr>
<tr><td rowspan="2">Valve</td><td>1</td><td></td></tr><tr><td>2</td><td>mm</td></tr></table>
<pre>  x = 1
  y = 2</pre><blockquote>Said.</blockquote><aside>Advertisement</aside><script>no()</script></main>
<footer>Imprint</footer></body></html>"""


def of_table(text: str) -> Read:
    return table.read(text.encode(), Hints(CSV), LIMITS)


def test_a_line_without_an_end_is_bounded() -> None:
    with pytest.raises(ReadError) as raised:
        list(lines_of(["a" * (MAX_LINE_CHARACTERS // 2 + 1)] * 2))
    assert raised.value.reason == "DOCUMENT_TOO_LARGE"


@pytest.mark.parametrize("parts", [["a\r", "\nb\rc\n", "", "d"], ["a\r\nb\rc\nd"], list("a\r\nb\rc\nd")])
def test_lines_do_not_depend_on_how_the_text_comes(parts: list[str]) -> None:
    assert list(lines_of(parts)) == ["a\r\n", "b\r", "c\n", "d"]


def test_a_text_that_grows_too_long_ends_where_it_does() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "a: 1\n"

    with pytest.raises(ReadError) as raised:
        list(packed(endless(), ReaderLimits(max_unpacked_bytes=1_000_000)))
    assert raised.value.reason == "DOCUMENT_TOO_LARGE"


def test_a_whole_text_is_cut_and_joined_to_the_same() -> None:
    text = "".join(f"# {number}\n" for number in range(120_000))
    starts = [place for place in range(len(text)) if text[place] == "#"]
    whole = Read(text, markdown=True, title="T", headings=[(1, "h", at) for at in starts], metadata={"a": 1})
    found = list(cut(whole))
    assert len(found) == -(-len(text) // PIECE_CHARACTERS) > 2
    assert joined(found) == whole
    assert joined(cut(Read(""))) == Read("", headings=[])


def test_a_table_comes_in_pieces_between_its_rows() -> None:
    rows = [(str(number), f"Part, {number}\nof many") for number in range(40_000)]
    text = "id,name\n" + "".join(f'{number},"{name}"\n' for number, name in rows)
    found: list[Read] = []
    table.read_pieces(io.BytesIO(text.encode()), Hints(CSV), LIMITS, found.append)
    assert len(found) > 3
    assert joined(found).text == "\n\n".join(f"id: {number}\nname: {name}" for number, name in rows)


def test_a_quotation_that_never_ends_is_refused() -> None:
    with pytest.raises(ReadError) as raised:
        of_table('a,b\n1,"' + "word\n" * 4_000_000)
    assert raised.value.reason == "INVALID_TABLE"


@pytest.mark.parametrize(
    "value",
    [
        RECORDS,
        {"items": RECORDS, "count": 3},
        [1, None, "two", 2.5],
        [1, {"a": 1}, 2],
        [[1, 2], [3, [4, {"a": None}]]],
        "alone",
        [],
        {},
    ],
)
def test_json_is_the_same_whether_it_fits_or_not(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()
    whole = records.read(data, Hints(JSON), LIMITS)
    monkeypatch.setattr(records, "MAX_WHOLE_BYTES", 0)
    assert records.read(data, Hints(JSON), LIMITS) == whole
    assert whole.mime_type == JSON


def test_fields_of_a_large_object_have_their_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_WHOLE_BYTES", 0)
    data = json.dumps({"items": RECORDS}).encode("utf-16")
    assert records.read(data, Hints(JSON), LIMITS).text == (
        "items[0].name: Valve\nitems[0].size.height: 2\nitems[0].size.unit: mm\nitems[0].tags: brass, DN 4\n"
        "items[1].parts[0]: 1\nitems[1].parts[1].id: 2\nitems[1].parts[2]: 3, 4\nitems[1].parts[4]: 5\n"
        "items[2].text: two\nlines\nitems[2].big: 12345678901234567890123\nitems[2].share: 0.125\n"
        "items[2].is_spare: true\nitems[2].: unnamed"
    )


@pytest.mark.parametrize("most", [0, 10**9])
@pytest.mark.parametrize(
    ("content", "is_guess", "expected"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', False, JSON_LINES),
        ('{"a": 1} and more', True, PLAIN),
        ('{"a": 1} and more', False, "INVALID_JSON"),
        ("[" * 5000, False, "INVALID_JSON"),
        ("[" * 200 + "1" + "]" * 200, False, "INVALID_JSON"),
        ('{"a": [1, 2', False, "INVALID_JSON"),
        ("", False, "INVALID_JSON"),
    ],
)
def test_what_is_no_json_is_known_before_anything_is_given(
    content: str, is_guess: bool, expected: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_WHOLE_BYTES", most)
    hints = Hints(JSON, is_guess=is_guess)
    if expected == "INVALID_JSON" and content:
        with pytest.raises(ReadError) as raised:
            records.read(content.encode(), hints, LIMITS)
        assert raised.value.reason == expected
        assert "\n" not in raised.value.message
    elif content:
        assert records.read(content.encode(), hints, LIMITS).mime_type == expected


def test_a_list_of_a_million_numbers_is_read_in_lines() -> None:
    data = json.dumps({"samples": list(range(1_000_000, 1_100_000))}).encode()
    lines = records.read(data, Hints(JSON), LIMITS).text.splitlines()
    assert len(lines) == 3
    numbers = [number for line in lines for number in line.removeprefix("samples: ").split(", ")]
    assert numbers == [str(number) for number in range(1_000_000, 1_100_000)]


def long_html(page: str, monkeypatch: pytest.MonkeyPatch) -> Read:
    monkeypatch.setattr(html, "MAX_WHOLE_BYTES", 0)
    return html.read(page.encode(), Hints(), LIMITS)


def test_a_long_page_that_says_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_WHOLE_BYTES", 0)
    page = b"<p>Some words.</p>" * 20_000
    with pytest.raises(ReadError) as raised:
        html.read(page, Hints(), ReaderLimits(max_unpacked_bytes=100_000))
    assert raised.value.reason == "DOCUMENT_TOO_LARGE"


@pytest.mark.parametrize(
    "page", [PAGE, PAGE.replace("main>", "article>"), "<h1>Letter</h1>Words.<p>More.<h2>End</h2><p>Bye."]
)
def test_a_long_page_says_what_a_short_one_says(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = html.read(page.encode(), Hints(), LIMITS)
    assert whole.text
    assert long_html(page, monkeypatch) == whole


def test_a_long_page_without_main_content_is_read_without_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.replace("<main>", "<div>").replace("</main>", "</div>")
    text = long_html(page, monkeypatch).text
    assert "Then it runs." in text
    assert not any(around in text for around in ("Home", "Company", "Imprint", "Advertisement", "no()"))


def test_a_table_of_a_long_page_keeps_all_rows_under_one_head(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"<tr><td>{n}<td><td>{'late' if n == 8000 else ''}<td>Part {n}</tr>" for n in range(9000))
    page = f"<p>Before.</p><table><tr><th>No<th>Old<th>Note<th>Name</tr>{rows}</table><p>After.</p>"
    read = long_html(page, monkeypatch)
    assert_whole(read, [(str(n), "", "late" if n == 8000 else "", f"Part {n}") for n in range(9000)])
    lines = read.text.splitlines()
    assert lines[:5] == [
        "Before.",
        "",
        "| No | Old | Note | Name |",
        "|---|---|---|---|",
        "| 0 |  |  | Part 0 |",
    ]
    assert lines[-3:] == ["| 8999 |  |  | Part 8999 |", "", "After."]
    assert lines[4:-2] == [f"| {n} |  | {'late' if n == 8000 else ''} | Part {n} |" for n in range(9000)]


def test_a_list_of_a_long_page_goes_on_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"<ol>{''.join(f'<li>Step {n}</li>' for n in range(1, 9001))}</ol>"
    lines = [line for line in long_html(page, monkeypatch).text.splitlines() if line]
    assert lines == [f"{n}. Step {n}" for n in range(1, 9001)]


@pytest.mark.parametrize("element", ["p", "pre", "span", "td"])
def test_an_endless_element_of_a_page_loses_nothing(element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"word{number}" for number in range(300_000)]
    page = f"<{'table><tr><' * (element == 'td')}{element}>{' '.join(words)}"
    found = long_html(page, monkeypatch).text.replace("```", " ").split()
    # A word may be cut where there is no better place.
    assert "".join(found) == "".join(words)
    assert len(found) < len(words) + 10


def test_a_docx_table_of_thousands_of_rows_keeps_all_of_them_under_one_head() -> None:
    document = docx.Document()
    document.add_heading("Parts", 1)
    rows = document.add_table(rows=1, cols=3)
    rows.rows[0].cells[0].text = "No"
    rows.rows[0].cells[2].text = "Name"
    out = io.BytesIO()
    document.save(out)
    read = docx_reader.read(with_rows(out.getvalue(), 1200), Hints(), LIMITS)
    assert_whole(read, [(str(number), "", f"Part {number}") for number in range(1200)])
    found = read.text.splitlines()
    assert found[:5] == ["# Parts", "", "| No |  | Name |", "|---|---|---|", "| 0 |  | Part 0 |"]
    assert found[4:] == [f"| {number} |  | Part {number} |" for number in range(1200)]


def assert_whole(read: Read, rows: list[tuple[str, ...]]) -> None:
    """Assert that the parts of a table are one, whose rows stand where it says."""
    found = [row for table in read.tables for row in table.rows]
    assert {table.index for table in read.tables} == {0}
    assert [row.cells for row in found] == rows
    assert [row.number for row in found] == list(range(2, len(rows) + 2))
    assert all(read.text.startswith(f"| {row.cells[0]} |", row.start) for row in found)


def with_rows(data: bytes, count: int) -> bytes:
    """Return a DOCX with rows put behind the only row of its table: python-docx takes a second for each
    thousand."""

    def cell(text: str) -> str:
        return f"<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"

    rows = "".join(f"<w:tr>{cell(str(n))}{cell('')}{cell(f'Part {n}')}</w:tr>" for n in range(count))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name == "word/document.xml":
                part = part.replace(b"</w:tbl>", rows.encode() + b"</w:tbl>")
            new.writestr(name, part)
    return out.getvalue()
