"""What is read out of text formats and records, and what is refused, by content before name."""

import json
from typing import Any

import pytest
from groundline_ingestor.adapters.extraction.extractor import DocumentExtractor
from groundline_ingestor.adapters.extraction.readers.common import Limits
from groundline_ingestor.adapters.extraction.sandbox import Sandbox
from groundline_ingestor.adapters.extraction.types import (
    CSV,
    DOCX,
    HTML,
    JSON,
    JSON_LINES,
    MARKDOWN,
    PDF,
    PLAIN,
    TSV,
    type_of,
)
from groundline_ingestor.domain import DocumentInput, Heading, IngestionError, IngestionState, SourceType

# No process is started: nothing here is of a risky format.
EXTRACTOR = DocumentExtractor(Sandbox(Limits()))

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (DocumentInput(""), "EMPTY_TEXT"),
        (DocumentInput(" \r\n\t"), "EMPTY_TEXT"),
        (DocumentInput(b""), "EMPTY_TEXT"),
        (DocumentInput(b"\xef\xbb\xbf"), "EMPTY_TEXT"),
        (DocumentInput(b"", mime_type=HTML), "EMPTY_TEXT"),
        (DocumentInput(b"[]"), "EMPTY_TEXT"),
        (DocumentInput("{}", source_type=SourceType.OBJECT), "EMPTY_TEXT"),
        (DocumentInput("a\x00b"), "INVALID_TEXT"),
        (DocumentInput(b"a\x00b"), "INVALID_TEXT"),
        (DocumentInput(b'{"a": "b\\u0000"}'), "INVALID_TEXT"),
        (DocumentInput(b"caf\xe9 au lait"), "INVALID_ENCODING"),
        (DocumentInput(b"caf\xe9", uri="table.csv"), "INVALID_ENCODING"),
        (DocumentInput(b"\xff\xfea"), "INVALID_ENCODING"),
        (DocumentInput(b"text", mime_type="text/plain; charset=klingon"), "INVALID_ENCODING"),
        (DocumentInput("text", mime_type="application/pdf"), "UNSUPPORTED_TYPE"),
        (DocumentInput(b"text", mime_type="application/pdf"), "CORRUPT_DOCUMENT"),
        (DocumentInput(b"PK\x03\x04rest", uri="notes.txt"), "UNSUPPORTED_TYPE"),
        (DocumentInput(b"\x1f\x8b\x08rest"), "UNSUPPORTED_TYPE"),
        (DocumentInput(OLE + b"rest", uri="old.doc"), "UNSUPPORTED_TYPE"),
        (DocumentInput(OLE + "EncryptedPackage".encode("utf-16-le"), uri="a.docx"), "ENCRYPTED_DOCUMENT"),
        (DocumentInput(b"{", mime_type="application/json"), "INVALID_JSON"),
        (DocumentInput(b"[" * 100_000, mime_type="application/json"), "INVALID_JSON"),
        (DocumentInput(b'{"a":' * 200 + b"1" + b"}" * 200), "INVALID_JSON"),
    ],
)
def test_what_holds_no_usable_text_fails_while_extracting(given: DocumentInput, reason: str) -> None:
    with pytest.raises(IngestionError) as raised:
        EXTRACTOR.extract(given)
    assert raised.value.failure.stage is IngestionState.EXTRACTING
    assert raised.value.failure.reason == reason


@pytest.mark.parametrize(
    ("given", "mime_type"),
    [
        (DocumentInput("text"), PLAIN),
        (DocumentInput("text", uri="docs/guide.md"), MARKDOWN),
        (DocumentInput("text", uri="https://example.org/guide.MD?raw=1#top"), MARKDOWN),
        (DocumentInput("text", uri="guide.md", mime_type="text/plain; charset=utf-8"), PLAIN),
        (DocumentInput("text", mime_type="Text/X-Markdown"), MARKDOWN),
        (DocumentInput("<p>text", uri="page.html"), PLAIN),
        (DocumentInput('{"a": 1}'), PLAIN),
        (DocumentInput("x = 1", uri="tool.py"), "text/x-python"),
        (DocumentInput(b"fn main() {}", uri="main.rs"), "text/x-rust"),
        (DocumentInput(b"puts 1", uri="main.rb"), PLAIN),
        (DocumentInput(b"text", uri="notes"), PLAIN),
        (DocumentInput(b"# Valve\n\nText.", uri="notes"), MARKDOWN),
        (DocumentInput(b"# a comment\nx=1", uri="run"), PLAIN),
        (DocumentInput(b"#!/bin/sh\n\necho", uri="run"), PLAIN),
        (DocumentInput(b"<p>text</p>", uri="page.html"), HTML),
        (DocumentInput(b"no mark-up", uri="page.html"), PLAIN),
        (DocumentInput(b" <!DOCTYPE html><html>", uri="notes.txt"), HTML),
        (DocumentInput(b'<?xml version="1.0"?><html>'), HTML),
        (DocumentInput(b"<?xml version='1.0'?><feed>"), PLAIN),
        (DocumentInput(b"a,b\n1,2", uri="table.csv"), CSV),
        (DocumentInput(b"one, two\nthree", uri="table.csv"), PLAIN),
        (DocumentInput(b"a;b;c\n1;2;3\n4;5;6"), CSV),
        (DocumentInput(b"a\tb\tc\n1\t2\t3\n4\t5\t6"), TSV),
        (DocumentInput(b"Well, yes, no.\nShort, but, so.\nAnd prose, which ends."), PLAIN),
        (DocumentInput(b'{"a": 1}'), JSON),
        (DocumentInput(b'{"a": 1}\n{"a": 2}', uri="data.json"), JSON_LINES),
        (DocumentInput(b"{ not json", uri="data.json"), PLAIN),
        (DocumentInput(b"[link](x) and text"), PLAIN),
        (DocumentInput(b"junk\n%PDF-1.7 ...", uri="notes.txt"), PDF),
        (DocumentInput(b"%PDF-1.7 ...", mime_type="text/plain"), PDF),
        (DocumentInput(b"PK\x03\x04...word/document.xml"), DOCX),
        (DocumentInput(b"\x89PNG\r\n\x1a\n", uri="a.txt"), "image/png"),
        (DocumentInput(b"text", mime_type="application/octet-stream"), PLAIN),
    ],
)
def test_the_type_is_what_the_content_is_else_what_was_said(given: DocumentInput, mime_type: str) -> None:
    assert type_of(given) == mime_type


@pytest.mark.parametrize("uri", ["../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "C:\\x\\..\\y.md"])
def test_a_uri_is_a_name_and_is_never_opened(uri: str) -> None:
    assert EXTRACTOR.extract(DocumentInput(b"text", uri=uri)).text == "text"


def test_a_charset_that_was_given_is_heeded() -> None:
    given = DocumentInput(b"caf\xe9", mime_type='text/plain; charset="ISO-8859-1"')
    assert EXTRACTOR.extract(given).text == "café"


def test_a_table_is_read_row_by_row_under_its_names() -> None:
    table = b'Name;Price;Note\n"Valve; small";9;\nPump;"1\n2";old\n'
    text = EXTRACTOR.extract(DocumentInput(table, uri="parts.csv")).text
    assert text == "Name: Valve; small\nPrice: 9\n\nName: Pump\nPrice: 1\n2\nNote: old"


def test_a_row_that_is_longer_than_the_first_keeps_its_cells() -> None:
    given = DocumentInput(b"a,b\n1,2,3\n", mime_type=CSV)
    assert EXTRACTOR.extract(given).text == "a: 1\nb: 2\n3"


RECORD = {
    "name": "Valve",
    "size": {"height": 2.0, "unit": "mm"},
    "tags": ["brass", "DN 4", None],
    "parts": [{"id": 1}, {"id": 2, "spare": True}],
    "note": None,
    "empty": "",
    "text": "two\nlines",
}
LINES = (
    "name: Valve\nsize.height: 2\nsize.unit: mm\ntags: brass, DN 4\n"
    "parts[0].id: 1\nparts[1].id: 2\nparts[1].spare: true\ntext: two\nlines"
)


def test_a_record_is_read_field_by_field_and_names_itself() -> None:
    given = DocumentInput(json.dumps(RECORD), source_type=SourceType.OBJECT)
    extraction = EXTRACTOR.extract(given)
    assert (extraction.text, extraction.mime_type, extraction.title) == (LINES, JSON, "Valve")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (json.dumps(RECORD), LINES),
        (json.dumps([{"a": 1}, {}, {"a": 2}]), "a: 1\n\na: 2"),
        ('{"a": 1}\n\n{"a": 2}\n', "a: 1\n\na: 2"),
        ("[1, true, null, 2.5]", "1\ntrue\n2.5"),
    ],
)
def test_json_is_read_record_by_record(content: str, text: str) -> None:
    assert EXTRACTOR.extract(DocumentInput(content.encode())).text == text


def test_a_title_that_is_no_text_names_nothing() -> None:
    record: dict[str, Any] = {"title": 7, "name": ["x"], "label": "Yes"}
    given = DocumentInput(json.dumps(record), source_type=SourceType.OBJECT)
    assert EXTRACTOR.extract(given).title == "Yes"


@pytest.mark.parametrize(
    "content", ["\ufeffa\r\nb", "a\r\nb".encode("utf-8-sig"), "a\r\nb".encode("utf-16"), b"a\r\nb"]
)
def test_a_byte_order_mark_is_no_text_and_line_ends_stay(content: str | bytes) -> None:
    assert EXTRACTOR.extract(DocumentInput(content)).text == "a\r\nb"


def headings(text: str) -> list[tuple[int, str]]:
    found = EXTRACTOR.extract(DocumentInput(text, mime_type=MARKDOWN)).headings
    return [(heading.level, heading.title) for heading in found]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```",
        "~~~sh\n# no\n~~~",
        "    # no",
        "> # no",
        "- # no",
        "#no",
        "\\# no",
        "<!--\n# no\n-->",
        "---\ntitle: no\n# no\n---\n\ntext",
        "---\r\ntitle: no\r\n---\r\ntext",
        "#\n\ntext",
    ],
)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert headings(text) == []


def test_headings_are_plain_text() -> None:
    assert headings("# A *b* `c_d` [e](http://x) &amp; \\# ![f](g) <br> #\n\nSet\next\n===\n\n   ### h") == [
        (1, "A b c_d e & # f"),
        (1, "Set ext"),
        (3, "h"),
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_heading_begins_at_its_mark(line_end: str) -> None:
    text = line_end.join(["😀 text", "", "  ## Two", "", "Three", "---", ""])
    found = EXTRACTOR.extract(DocumentInput(text, mime_type=MARKDOWN)).headings
    assert found == (Heading(2, "Two", text.index("##")), Heading(2, "Three", text.index("Three")))


def test_an_unclosed_front_matter_is_read_in_time() -> None:
    assert headings("---\n" + "\r" * 50_000 + "# One") == [(1, "One")]
