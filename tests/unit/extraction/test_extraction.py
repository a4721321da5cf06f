"""Extraction of text formats and records, and refusals, by content before name."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from groundline.v1 import document_pb2, error_pb2, passage_pb2
from groundline_extraction.documents import GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.formats import (
    CSV,
    DOC,
    DOCX,
    HTML,
    JSON,
    JSON_LINES,
    MARKDOWN,
    MSG,
    PDF,
    PLAIN,
    PPT,
    TSV,
    XLS,
    ZIP,
    clean_type,
    type_of_file,
    type_of_text,
)
from groundline_extraction.headings import MAX_HEADINGS
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.texts import Heading

SANDBOX = Sandbox(ReaderLimits(), processes=1)
EXTRACTOR = DocumentExtractor(SANDBOX)


@pytest.fixture(scope="module", autouse=True)
def _end_readers() -> Iterator[None]:
    yield
    SANDBOX.close()


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (GivenDocument(""), "EMPTY_TEXT"),
        (GivenDocument(" \r\n\t"), "EMPTY_TEXT"),
        (GivenDocument(b""), "EMPTY_TEXT"),
        (GivenDocument(b"\xef\xbb\xbf"), "EMPTY_TEXT"),
        (GivenDocument(b"", mime_type=HTML), "EMPTY_TEXT"),
        (GivenDocument(b"[]"), "EMPTY_TEXT"),
        (GivenDocument("{}", source_type=passage_pb2.SOURCE_TYPE_OBJECT), "EMPTY_TEXT"),
        (GivenDocument("a\x00b"), "INVALID_TEXT"),
        (GivenDocument(b"a\x00b"), "INVALID_TEXT"),
        (GivenDocument(b'{"a": "b\\u0000"}'), "INVALID_TEXT"),
        (GivenDocument(b'{"a": "\\ud800 x"}'), "INVALID_TEXT"),
        (GivenDocument('{"a": "\\ud800 x"}', source_type=passage_pb2.SOURCE_TYPE_OBJECT), "INVALID_TEXT"),
        (GivenDocument("\ud800"), "INVALID_TEXT"),
        (GivenDocument(b"caf\xe9", mime_type="text/plain; charset=utf-8"), "INVALID_ENCODING"),
        (GivenDocument("größer als vorgesehen".encode() + b"\xe9"), "INVALID_ENCODING"),
        (GivenDocument(bytes(range(1, 256))), "INVALID_ENCODING"),
        (GivenDocument(b"\xff\xfea"), "INVALID_ENCODING"),
        (GivenDocument(b"text", mime_type="text/plain; charset=klingon"), "INVALID_ENCODING"),
        (GivenDocument("text", mime_type="application/pdf"), "UNSUPPORTED_TYPE"),
        (GivenDocument(b"text", mime_type="application/pdf"), "CORRUPT_DOCUMENT"),
        (GivenDocument(b"PK\x03\x04rest", uri="notes.txt"), "CORRUPT_DOCUMENT"),
        (GivenDocument(b"{ not json", uri="data.json"), "INVALID_JSON"),
        (GivenDocument(b"\x1f\x8b\x08rest"), "CORRUPT_DOCUMENT"),
        (GivenDocument(OLE + b"rest", uri="old.doc"), "UNSUPPORTED_TYPE"),
        (GivenDocument(OLE + "EncryptedPackage".encode("utf-16-le"), uri="a.docx"), "ENCRYPTED_DOCUMENT"),
        (GivenDocument(b"{", mime_type="application/json"), "INVALID_JSON"),
        (GivenDocument(b"[" * 100_000, mime_type="application/json"), "INVALID_JSON"),
        (GivenDocument(b'{"a":' * 200 + b"1" + b"}" * 200), "INVALID_JSON"),
    ],
)
def test_what_holds_no_usable_text_fails_while_extracting(given: GivenDocument, reason: str) -> None:
    with pytest.raises(IngestionError) as raised:
        EXTRACTOR.extract(given)
    assert raised.value.failure.stage == document_pb2.INGESTION_STATE_EXTRACTING
    assert error_pb2.ErrorReason.Name(raised.value.failure.reason) == reason


@pytest.mark.parametrize(
    ("text", "name", "mime_type", "found"),
    [
        ("text", "", "", PLAIN),
        ("text", "guide.md", "", MARKDOWN),
        ("text", "guide.MD", "", MARKDOWN),
        ("text", "guide.md", "text/plain; charset=utf-8", PLAIN),
        ("text", "", "Text/X-Markdown", MARKDOWN),
        ("<p>text", "page.html", "", HTML),
        ("no mark-up", "page.html", "", PLAIN),
        ("<p>text", "", "", PLAIN),
        ('{"a": 1}', "", "", PLAIN),
        ('{"a": 1}', "data.json", "", JSON),
        ("a,b", "table.csv", "", CSV),
        ("x = 1", "tool.py", "", "text/x-python"),
    ],
)
def test_the_type_of_a_text_is_what_was_said_else_what_its_name_says(
    text: str, name: str, mime_type: str, found: str
) -> None:
    assert type_of_text(clean_type(mime_type)[0], name, text) == found


@pytest.mark.parametrize(
    ("content", "name", "mime_type", "found"),
    [
        (b"fn main() {}", "main.rs", "", "text/x-rust"),
        (b"puts 1", "main.rb", "", PLAIN),
        (b"text", "notes", "", PLAIN),
        (b"# Valve\n\nText.", "notes", "", MARKDOWN),
        (b"# a comment\nx=1", "run", "", PLAIN),
        (b"#!/bin/sh\n\necho", "run", "", PLAIN),
        (b"<p>text</p>", "page.html", "", HTML),
        (b"no mark-up", "page.html", "", PLAIN),
        (b" <!DOCTYPE html><html>", "notes.txt", "", HTML),
        (b'<?xml version="1.0"?><html>', "", "", HTML),
        (b"a,b\n1,2", "table.csv", "", CSV),
        (b"one, two\nthree", "table.csv", "", CSV),
        (b"a;b;c\n1;2;3\n4;5;6", "", "", CSV),
        (b"a\tb\tc\n1\t2\t3\n4\t5\t6", "", "", TSV),
        (b"Well, yes, no.\nShort, but, so.\nAnd prose, which ends.", "", "", PLAIN),
        (b'{"a": 1}', "", "", JSON),
        (b"[link](x) and text", "notes.txt", "text/plain", PLAIN),
        (b"junk\n%PDF-1.7 ...", "notes.txt", "", PDF),
        (b"%PDF-1.7 ...", "", "text/plain", PDF),
        (b"PK\x03\x04...word/document.xml", "", "", DOCX),
        (b"\x89PNG\r\n\x1a\n", "a.txt", "", "image/png"),
        (b"text", "", "application/octet-stream", PLAIN),
    ],
)
def test_a_file_is_what_its_bytes_say(content: bytes, name: str, mime_type: str, found: str) -> None:
    assert type_of_file(clean_type(mime_type)[0], name, io.BytesIO(content)) == found


@pytest.mark.parametrize(
    ("content", "text", "mime_type"),
    [
        (b'{"a": 1}\n{"a": 2}', "a: 1\n\na: 2", JSON_LINES),
        (b"[link](x) and text", "[link](x) and text", PLAIN),
        (b"{ not json", "{ not json", PLAIN),
    ],
)
def test_what_only_begins_like_json_is_what_it_is(content: bytes, text: str, mime_type: str) -> None:
    extraction = EXTRACTOR.extract(GivenDocument(content))
    assert (extraction.text, extraction.mime_type) == (text, mime_type)


@pytest.mark.parametrize(
    ("stream", "mime_type"),
    [("WordDocument", DOC), ("PowerPoint Document", PPT), ("__substg1.0_", MSG), ("Book\0", XLS)],
)
def test_an_old_format_is_told_by_its_streams(stream: str, mime_type: str) -> None:
    content = OLE + bytes(500) + stream.encode("utf-16-le")
    assert type_of_file("", "a", io.BytesIO(content)) == mime_type


@pytest.mark.parametrize(
    "charset",
    [
        *("hex", "base64", "zlib", "bz2", "rot13", "quopri", "uu", "undefined"),
        *("punycode", "idna", "utf-7", "unicode_escape", "raw_unicode_escape"),
    ],
)
def test_what_is_no_encoding_of_text_is_no_charset(charset: str) -> None:
    bomb = zlib.compress(bytes(1 << 20))
    with pytest.raises(IngestionError) as raised:
        EXTRACTOR.extract(GivenDocument(bomb, mime_type=f"text/plain; charset={charset}"))
    assert raised.value.failure.reason == error_pb2.INVALID_ENCODING


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café au lait", "latin-1"),
        ("Für größere Ventile gilt die Übersicht.", "cp1252"),
        ("Предохранительный клапан открывается при температуре 41 градус.", "cp1251"),
        ("Предохранительный клапан открывается при температуре 41 градус.", "koi8-r"),
        ("Zawór bezpieczeństwa otwiera się przy 41 stopniach; sprawdź łączność.", "cp1250"),
        ("Η βαλβίδα ασφαλείας ανοίγει στους σαράντα έναν βαθμούς.", "cp1253"),
        ("安全弁は41度で開きます。詳細については付録をご覧ください。", "shift_jis"),
        ("安全弁は41度で開きます。詳細については付録をご覧ください。", "euc_jp"),
        ("安全阀在四十一度时打开。有关详细信息，请参阅附录。", "gb18030"),
        ("안전 밸브는 41도에서 열립니다. 자세한 내용은 부록을 참조하십시오.", "euc_kr"),
        ("The valve opens at 41 degrees — ok", "utf-16-le"),
        ("The valve opens at 41 degrees — ok", "utf-16-be"),
        ("Клапан открывается при 41 градусе.\nНасос\n", "utf-16-le"),
        ("Клапан открывается при 41 градусе.\nНасос\n", "utf-16-be"),
        ("名称;价格\n安全阀一;九\n水泵;十二\n", "utf-16-le"),
        ("名称;价格\n安全阀一;九\n水泵;十二\n", "utf-16-be"),
    ],
)
def test_an_encoding_that_is_not_named_is_found(text: str, encoding: str) -> None:
    assert EXTRACTOR.extract(GivenDocument(text.encode(encoding))).text == text


def test_the_directory_of_a_zip_file_is_read_in_bounds() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", b"<w:document/>")
    small = out.getvalue()
    assert type_of_file("", "a.bin", io.BytesIO(small)) == DOCX
    directory = small[small.index(b"PK\x01\x02") : small.index(b"PK\x05\x06")]
    other = directory.replace(b"word/document.xml", b"xxxx/xxxxxxxx.xxx")
    many = other * 700_000 + directory
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, len(many), 4, 0)
    assert type_of_file("", "a.bin", io.BytesIO(b"PK\x03\x04" + many + end)) == ZIP


def test_an_archive_that_holds_an_unpacked_document_is_an_archive() -> None:
    document, archive = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(document, "w") as file:
        file.writestr("word/document.xml", b"<w:document/>")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("letter.docx", document.getvalue())
    assert type_of_file("", "a.zip", archive) == ZIP


def test_a_segment_with_a_quarter_of_a_million_headings_has_as_many_as_are_of_use() -> None:
    text = "# a\n" * 500_000
    segments = list(EXTRACTOR.read(GivenDocument(text, mime_type=MARKDOWN)).segments)
    assert [len(segment.headings) for segment in segments] == [MAX_HEADINGS] * 2


def test_a_heading_of_a_million_brackets_has_a_title() -> None:
    text = f"# {'[' * 1_000_000}\n"
    [heading] = EXTRACTOR.extract(GivenDocument(text, mime_type=MARKDOWN)).headings
    assert set(heading.title) == {"["}


@pytest.mark.parametrize("uri", ["../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "C:\\x\\..\\y.md"])
def test_a_uri_is_a_name_and_is_never_opened(uri: str) -> None:
    assert EXTRACTOR.extract(GivenDocument(b"text", uri=uri)).text == "text"


def test_a_charset_that_was_given_is_heeded() -> None:
    given = GivenDocument(b"caf\xe9", mime_type='text/plain; charset="ISO-8859-1"')
    assert EXTRACTOR.extract(given).text == "café"


def test_a_table_is_read_row_by_row_under_its_names() -> None:
    table = b'Name;Price;Note\n"Valve; small";9;\nPump;"1\n2";old\n'
    text = EXTRACTOR.extract(GivenDocument(table, uri="parts.csv")).text
    assert text == "Name: Valve; small\nPrice: 9\n\nName: Pump\nPrice: 1\n2\nNote: old"


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-16-le", b""),
        ("utf-16-le", b"\xff\xfe"),
        ("utf-16-be", b""),
        ("utf-16-be", b"\xfe\xff"),
        ("utf-8", b"\xef\xbb\xbf"),
        ("cp1252", b""),
    ],
)
@pytest.mark.parametrize("first", ["", "sep=;\r\n", '"sep=;"\r\n'])
def test_a_table_of_any_encoding_says_or_shows_its_delimiter(encoding: str, mark: bytes, first: str) -> None:
    table = mark + f"{first}Größe;Preis\r\n4, klein;9,50\r\n6, mittel;12,00\r\n".encode(encoding)
    text = EXTRACTOR.extract(GivenDocument(table, uri="preise.csv")).text
    assert text == "Größe: 4, klein\nPreis: 9,50\n\nGröße: 6, mittel\nPreis: 12,00"


def test_a_stated_delimiter_may_be_any_and_a_name_of_its_kind_states_none() -> None:
    assert EXTRACTOR.extract(GivenDocument(b"sep=^\na^b\n1^2\n", uri="a.csv")).text == "a: 1\nb: 2"
    assert EXTRACTOR.extract(GivenDocument(b"sep=9,b\n1,2\n", uri="a.csv")).text == "sep=9: 1\nb: 2"


def test_a_zero_in_a_text_of_bytes_does_not_make_it_wide() -> None:
    with pytest.raises(IngestionError) as raised:
        EXTRACTOR.extract(GivenDocument(b"a text with a zero\x00 in it\n", uri="a.txt"))
    assert raised.value.failure.reason == error_pb2.INVALID_TEXT


def test_a_row_that_is_longer_than_the_first_keeps_its_cells() -> None:
    given = GivenDocument(b"a,b\n1,2,3\n", mime_type=CSV)
    assert EXTRACTOR.extract(given).text == "a: 1\nb: 2\n3"


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("Sales of 2024\n\nRegion,Q1\nNorth,5\n", "Sales of 2024\n\nRegion: North\nQ1: 5"),
        ("X;510;;Terms\nNo;Name\n10;net\n", "X 510 Terms\n\nNo: 10\nName: net"),
        ("X;510\nNo;Name\n10;net\n", "X 510\n\nNo: 10\nName: net"),
        ("Sales\nof 2024\nRegion,Q1\nNorth,5\n", "Sales\n\nof 2024\n\nRegion: North\nQ1: 5"),
    ],
)
def test_rows_that_are_unlike_the_names_of_columns_below_them_are_titles(table: str, text: str) -> None:
    assert EXTRACTOR.extract(GivenDocument(table.encode(), uri="sales.csv")).text == text


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("size\nsmall,4\nlarge,6\n", "size: small\n4\n\nsize: large\n6"),
        ("a,b\nx,y,z\nu,v,w\n", "a: x\nb: y\nz\n\na: u\nb: v\nw"),
        ("a,b\nx,y\n1,2\n", "a: x\nb: y\n\na: 1\nb: 2"),
        ("at,2023\nParis,none\nRome,5\n", "at: Paris\n2023: none\n\nat: Rome\n2023: 5"),
    ],
)
def test_the_first_row_names_the_columns_where_no_row_of_names_is_known_below_it(
    table: str, text: str
) -> None:
    assert EXTRACTOR.extract(GivenDocument(table.encode(), uri="sizes.csv")).text == text


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


def test_a_ragged_table_keeps_every_cell_under_its_name() -> None:
    table = b"Region,Q1,Q2\n\nNorth,580\nSouth,1,2,late\n"
    text = EXTRACTOR.extract(GivenDocument(table, uri="sales.csv")).text
    assert text == "Region: North\nQ1: 580\n\nRegion: South\nQ1: 1\nQ2: 2\nlate"


def test_a_record_is_read_field_by_field_and_names_itself() -> None:
    given = GivenDocument(json.dumps(RECORD), source_type=passage_pb2.SOURCE_TYPE_OBJECT)
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
    assert EXTRACTOR.extract(GivenDocument(content.encode())).text == text


def test_a_title_that_is_no_text_names_nothing() -> None:
    record: dict[str, Any] = {"title": 7, "name": ["x"], "label": "Yes"}
    given = GivenDocument(json.dumps(record), source_type=passage_pb2.SOURCE_TYPE_OBJECT)
    assert EXTRACTOR.extract(given).title == "Yes"


@pytest.mark.parametrize(
    "content", ["\ufeffa\r\nb", "a\r\nb".encode("utf-8-sig"), "a\r\nb".encode("utf-16"), b"a\r\nb"]
)
def test_a_byte_order_mark_is_no_text_and_line_ends_stay(content: str | bytes) -> None:
    assert EXTRACTOR.extract(GivenDocument(content)).text == "a\r\nb"


def headings(text: str) -> list[tuple[int, str]]:
    found = EXTRACTOR.extract(GivenDocument(text, mime_type=MARKDOWN)).headings
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
    found = EXTRACTOR.extract(GivenDocument(text, mime_type=MARKDOWN)).headings
    assert found == (Heading(2, "Two", text.index("##")), Heading(2, "Three", text.index("Three")))


def test_an_unclosed_front_matter_is_read_in_time() -> None:
    assert headings("---\n" + "\r" * 50_000 + "# One") == [(1, "One")]
