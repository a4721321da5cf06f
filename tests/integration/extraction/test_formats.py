"""Extraction of each format, from files that their own libraries write."""

import base64
import io
import json
import mailbox
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from groundline.v1 import error_pb2
from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.formats import DOCX, PPTX, XLSX
from groundline_extraction.members import FoundMember, MemberSpool
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.texts import ExtractedText
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

LIMITS = ReaderLimits(max_pages=20, max_unpacked_bytes=4 * 1024**2, seconds=60)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LIMITS) as sandbox:
        yield sandbox


@pytest.fixture
def extract(sandbox: Sandbox) -> Any:
    def extract(content: bytes | str, uri: str = "", mime_type: str = "") -> ExtractedText:
        return DocumentExtractor(sandbox).extract(GivenDocument(content, uri=uri, mime_type=mime_type))

    return extract


def saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def zip_of(parts: Mapping[str, bytes | str], *, first: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        if first:
            archive.writestr("mimetype", first, zipfile.ZIP_STORED)
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def titles(extraction: ExtractedText) -> list[tuple[int, str]]:
    for heading in extraction.headings:
        assert extraction.text[heading.start :].lstrip("# ").startswith(heading.title[:10])
    return [(heading.level, heading.title) for heading in extraction.headings]


# --- spreadsheets ---


def workbook() -> "openpyxl.Workbook":
    book = openpyxl.Workbook()
    book.properties.title = "Sales 2026"
    sheet = book.worksheets[0]
    sheet.title = "North"
    sheet.append(["Sales of the north"])
    sheet.append(["Region", "Share", "Turnover", "Since", "Code", "Paid"])
    sheet.append(["Oslo", 0.125, 1234567.891, date(2024, 3, 1), 7, True])
    sheet.append(["Bergen", None, -40, None, 42, False])
    for row in (3, 4):
        sheet.cell(row, 2).number_format = "0.0 %"
        sheet.cell(row, 3).number_format = '#,##0.00 "€"'
        sheet.cell(row, 5).number_format = "0000"
    return book


def test_a_row_of_a_sheet_stands_under_its_names_as_the_sheet_shows_it(extract: Any) -> None:
    extraction = extract(saved(workbook()))
    assert extraction.text == (
        "## North\n\nSales of the north\n\n"
        "Region: Oslo\nShare: 12.5 %\nTurnover: 1,234,567.89 €\nSince: 2024-03-01\nCode: 0007\nPaid: TRUE\n\n"
        "Region: Bergen\nTurnover: -40.00 €\nCode: 0042\nPaid: FALSE"
    )
    assert extraction.title == "Sales 2026"
    assert titles(extraction) == [(2, "North")]


def test_comments_stand_behind_their_cells_and_those_on_heads_once(extract: Any) -> None:
    book = workbook()
    sheet = book.worksheets[0]
    for place, text in {
        "A1": "Until June.",
        "B2": "Of all\nregions.",
        "C3": "Ann:\nAudited.",
        "B4": "Not yet known.",
        "K40": "Far away.",
    }.items():
        sheet[place].comment = Comment(text, "Ann")
    assert extract(saved(book)).text == (
        "## North\n\nSales of the north [Comment: Until June.]\n\nShare [Comment: Of all regions.]\n\n"
        "Region: Oslo\nShare: 12.5 %\nTurnover: 1,234,567.89 € [Comment: Ann: Audited.]\n"
        "Since: 2024-03-01\nCode: 0007\nPaid: TRUE\n\n"
        "Region: Bergen\nShare: [Comment: Not yet known.]\nTurnover: -40.00 €\nCode: 0042\nPaid: FALSE\n\n"
        "K40: [Comment: Far away.]"
    )


def test_a_thread_of_comments_stands_for_the_note_beside_it(extract: Any) -> None:
    book = openpyxl.Workbook()
    for row in (["Part", "Price"], ["Valve", 9]):
        book.worksheets[0].append(row)
    book.worksheets[0]["B2"].comment = Comment("[Threaded comment] Your version of Excel …", "tc={1}")
    with zipfile.ZipFile(io.BytesIO(saved(book))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    relations = "xl/worksheets/_rels/sheet1.xml.rels"
    parts[relations] = parts[relations].replace(
        b"</Relationships>",
        b'<Relationship Id="rIdT" Target="../threadedComments/threadedComment1.xml" '
        b'Type="http://schemas.microsoft.com/office/2017/10/relationships/threadedComment"/></Relationships>',
    )
    parts["xl/threadedComments/threadedComment1.xml"] = (
        b'<ThreadedComments xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments">'
        b'<threadedComment ref="B2" id="{1}"><text>Since when?</text></threadedComment>'
        b'<threadedComment ref="B2" id="{2}" parentId="{1}"><text>Since May.</text></threadedComment>'
        b"</ThreadedComments>"
    )
    assert extract(zip_of(parts)).text.endswith("Price: 9 [Comment: Since when? / Since May.]")


def test_merged_heads_of_columns_stand_before_each_of_them(extract: Any) -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.append(["Region", "2025", None, "2026", None])
    sheet.append([None, "Q1", "Q2", "Q1", "Q2"])
    sheet.append(["North", 1, 2, 3, None])
    sheet.merge_cells("B1:C1")
    sheet.merge_cells("D1:E1")
    assert extract(saved(book)).text.endswith("Region: North\n2025 Q1: 1\n2025 Q2: 2\n2026 Q1: 3")


def test_tables_that_empty_rows_divide_have_names_of_their_own(extract: Any) -> None:
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, 2], [], ["c", "d"], [3, 4]):
        book.worksheets[0].append(row)
    book.create_chartsheet("Picture").add_chart(chart_on(book.worksheets[0]))
    assert extract(saved(book)).text == "## Sheet\n\na: 1\nb: 2\n\nc: 3\nd: 4\n\n## Picture"


def chart_on(sheet: Any) -> BarChart:
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=1, min_row=1, max_row=2))
    return chart


def with_macros(content: bytes, plain: str, other: str) -> bytes:
    """Return an office document as programs save it that keep macros in it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    types = parts["[Content_Types].xml"]
    assert f"{plain}.main+xml".encode() in types
    parts["[Content_Types].xml"] = types.replace(f"{plain}.main+xml".encode(), f"{other}.main+xml".encode())
    return zip_of({**parts, "vbaProject.bin": b"\xd0\xcf\x11\xe0"})


def written() -> bytes:
    document = docx.Document()
    document.add_paragraph("Close it.")
    return saved(document)


def presented() -> bytes:
    slides = pptx.Presentation()
    slides.slides.add_slide(slides.slide_layouts[5]).shapes[0].text_frame.text = "Mounting"
    return saved(slides)


@pytest.mark.parametrize("is_said", [False, True], ids=["unsaid", "said"])
@pytest.mark.parametrize(
    ("make", "plain", "other"),
    [
        (lambda: saved(workbook()), XLSX, "application/vnd.ms-excel.sheet.macroEnabled"),
        (written, DOCX, "application/vnd.ms-word.document.macroEnabled"),
        (presented, PPTX, "application/vnd.ms-powerpoint.presentation.macroEnabled"),
    ],
    ids=["xlsm", "docm", "pptm"],
)
def test_an_office_document_with_macros_is_read_as_one_without(
    extract: Any, make: Callable[[], bytes], plain: str, other: str, is_said: bool
) -> None:
    extraction = extract(with_macros(make(), plain, other), mime_type=f"{other}.12" if is_said else "")
    assert extraction.text == extract(make()).text
    assert extraction.mime_type == plain


def test_a_workbook_that_says_it_is_huge_is_read_in_bounds(extract: Any) -> None:
    content = saved(workbook())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts: dict[str, bytes | str] = {name: archive.read(name) for name in archive.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"]
    assert isinstance(sheet, bytes)
    last = b'<row r="1048576"><c r="XFD1048576" t="n"><v>1</v></c></row></sheetData>'
    parts["xl/worksheets/sheet1.xml"] = sheet.replace(b"</sheetData>", last)
    text = extract(zip_of(parts)).text
    assert "Region: Oslo" in text
    assert text.endswith("\n\n1")


# --- slides ---


def presentation() -> Any:
    deck = pptx.Presentation()
    deck.core_properties.title = "Valves"
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Mounting"
    body = slide.placeholders[1].text_frame
    body.text = "Close the screws"
    below = body.add_paragraph()
    below.text, below.level = "crosswise", 1
    slide.notes_slide.notes_text_frame.text = "Ask who has a wrench."
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Figures"
    right = slide.shapes.add_textbox(Inches(5), Inches(2), Inches(3), Inches(1))
    right.text_frame.text = "on the right"
    left = slide.shapes.add_textbox(Inches(1), Inches(2), Inches(3), Inches(1))
    left.text_frame.text = "on the left"
    table = slide.shapes.add_table(2, 3, Inches(1), Inches(4), Inches(6), Inches(1)).table
    for cell, text in zip(table.iter_cells(), ("Valve", "Width", "", "A", "4", "5"), strict=True):
        cell.text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    data = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["Q1", "Q2"]
    data.add_series("North", (1.5, 2))  # type: ignore[no-untyped-call]
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(5), Inches(5), Inches(2), data)
    return deck


def test_slides_are_pages_with_titles_notes_tables_and_charts_in_reading_order(extract: Any) -> None:
    extraction = extract(saved(presentation()))
    assert extraction.text == (
        "## Mounting\n\n- Close the screws\n  - crosswise\n\n### Notes\n\nAsk who has a wrench.\n\n"
        "\f\n\n## Figures\n\non the left\n\non the right\n\n"
        "| Valve | Width | Width |\n|---|---|---|\n| A | 4 | 5 |\n\n"
        "|  | Q1 | Q2 |\n|---|---|---|\n| North | 1.5 | 2 |"
    )
    assert extraction.title == "Valves"
    assert titles(extraction) == [(2, "Mounting"), (3, "Notes"), (2, "Figures")]


def test_a_chart_of_any_kind_is_read_with_its_title(extract: Any) -> None:
    deck = presentation()
    chart = deck.slides[1].shapes[-1].chart
    chart.chart_title.text_frame.text = "Sales"
    # A kind that python-pptx does not know, and a point without a value.
    plot = chart._chartSpace.find(".//{*}barChart")
    plot.tag = plot.tag.replace("bar", "surface")
    first = plot.find(".//{*}val//{*}pt")
    first.getparent().remove(first)
    assert extract(saved(deck)).text.endswith("Sales\n\n|  | Q1 | Q2 |\n|---|---|---|\n| North |  | 2 |")


# --- OpenDocument and EPUB ---

ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
    'xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0" '
    'xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0" '
    'xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def opendocument(kind: str, body: str, list_styles: str = "", **more: str) -> bytes:
    """Return a document; `more`: its other parts by name, without ".xml", "__" for "/"."""
    content = (
        f"<office:document-content {ODF}><office:automatic-styles>{list_styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    title = "<office:meta><dc:title>Valves</dc:title></office:meta>"
    meta = f"<office:document-meta {ODF}>{title}</office:document-meta>"
    parts: dict[str, bytes | str] = {
        "META-INF/manifest.xml": "<m/>",
        "content.xml": content,
        "meta.xml": meta,
    }
    parts |= {f"{name.replace('__', '/')}.xml": part for name, part in more.items()}
    return zip_of(parts, first=f"application/vnd.oasis.opendocument.{kind}")


def test_an_odt_keeps_headings_lists_tables_notes_and_comments(extract: Any) -> None:
    extraction = extract(
        opendocument(
            "text",
            '<text:h text:outline-level="1">Mounting</text:h>'
            "<text:p>Close<text:s/>it<text:note><text:note-citation>1</text:note-citation><text:note-body>"
            "<text:p>By hand.</text:p></text:note-body></text:note>."
            "<office:annotation><text:p>Really?</text:p></office:annotation></text:p>"
            '<text:list text:style-name="L1"><text:list-item><text:p>one</text:p></text:list-item>'
            "<text:list-item><text:p>two</text:p><text:list><text:list-item><text:p>below</text:p>"
            "</text:list-item></text:list></text:list-item></text:list>"
            '<table:table><table:table-row><table:table-cell table:number-columns-spanned="2">'
            "<text:p>Width</text:p></table:table-cell><table:covered-table-cell/></table:table-row>"
            "<table:table-row><table:table-cell><text:p>4</text:p></table:table-cell>"
            "<table:table-cell><text:p>5</text:p></table:table-cell></table:table-row></table:table>",
            '<text:list-style style:name="L1"><text:list-level-style-number text:level="1"/>'
            '<text:list-level-style-number text:level="2"/></text:list-style>',
        )
    )
    assert extraction.text == (
        "# Mounting\n\nClose it[1]. [Comment: Really?]\n\n1. one\n2. two\n  1. below\n\n"
        "| Width | Width |\n|---|---|\n| 4 | 5 |\n\n[1] By hand."
    )
    assert extraction.title == "Valves"


def test_an_odt_s_lists_count_on_and_its_headers_and_footers_follow_the_text(extract: Any) -> None:
    def listed(text: str, attributes: str = "", start: str = "") -> str:
        item = f"<text:list-item {start}><text:p>{text}</text:p></text:list-item>"
        return f'<text:list text:style-name="Num" {attributes}>{item}</text:list>'

    body = (
        listed("first", start='text:start-value="4"')
        + "<text:p>between</text:p>"
        + listed("next", 'text:continue-numbering="true"')
        + listed("anew")
    )
    around = (
        "<style:header><text:p>Secret<text:tab/><text:page-number>7</text:page-number></text:p></style:header>"
        "<style:footer><text:p>Page <text:page-number>7</text:page-number></text:p></style:footer>"
        "<style:footer><text:p>- <text:page-number>7</text:page-number> -</text:p></style:footer>"
    )
    pages = "".join(f'<style:master-page style:name="{name}">{around}</style:master-page>' for name in "AB")
    styles = (
        f"<office:document-styles {ODF}><office:styles><text:list-style style:name='Num'>"
        "<text:list-level-style-number text:level='1'/></text:list-style></office:styles>"
        f"<office:master-styles>{pages}</office:master-styles></office:document-styles>"
    )
    assert extract(opendocument("text", body, styles=styles)).text == (
        "4. first\n\nbetween\n\n5. next\n\n1. anew\n\nSecret\n\nPage"
    )


def test_an_ods_shows_what_its_cells_show_and_not_its_empty_million(extract: Any) -> None:
    def row(*cells: str) -> str:
        inner = "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in cells)
        empty = '<table:table-cell table:number-columns-repeated="16000"/>'
        return f"<table:table-row>{inner}{empty}</table:table-row>"

    empty = '<table:table-row table:number-rows-repeated="1048570"><table:table-cell/></table:table-row>'
    rows = row("Region", "Share") + row("Oslo", "12,5 %") + empty
    sheet = f'<table:table table:name="North">{rows}</table:table>'
    assert extract(opendocument("spreadsheet", sheet)).text == "## North\n\nRegion: Oslo\nShare: 12,5 %"


def test_an_odp_is_read_slide_by_slide(extract: Any) -> None:
    def box(text: str, kind: str = "") -> str:
        return (
            f'<draw:frame presentation:class="{kind}"><draw:text-box><text:p>{text}</text:p></draw:text-box>'
            "</draw:frame>"
        )

    notes = f"<presentation:notes>{box('Ask.')}</presentation:notes>"
    slides = (
        f'<draw:page draw:name="p1">{box("Mounting", "title")}{box("Close it.")}{notes}</draw:page>'
        f'<draw:page draw:name="p2">{box("Alone.")}<draw:frame><draw:object xlink:href="./Object 1"/>'
        '<draw:image xlink:href="./ObjectReplacements/Object 1"/></draw:frame></draw:page>'
    )
    cells = [["", "Q1"], ["North", "1.5"]]
    rows = "".join(
        "<table:table-row>"
        + "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in row)
        + "</table:table-row>"
        for row in cells
    )
    chart = (
        f"<office:document-content {ODF}><office:body><office:chart><chart:chart><chart:title>"
        f"<text:p>Sales</text:p></chart:title><table:table>{rows}</table:table></chart:chart>"
        "</office:chart></office:body></office:document-content>"
    )
    extraction = extract(opendocument("presentation", slides, **{"Object 1__content": chart}))
    assert extraction.text == (
        "## Mounting\n\nClose it.\n\n### Notes\n\nAsk.\n\n\f\n\n## p2\n\nAlone.\n\nSales\n\n"
        "|  | Q1 |\n|---|---|\n| North | 1.5 |"
    )


def test_an_epub_is_read_in_the_order_of_its_spine(extract: Any) -> None:
    book = zip_of(
        {
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
            '<rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
            "OPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Valves</dc:title>'
            "<dc:creator>A. Author</dc:creator></metadata><manifest>"
            '<item id="b" href="b%20b.xhtml"/><item id="a" href="a.xhtml"/></manifest>'
            '<spine><itemref idref="a"/><itemref idref="b"/><itemref idref="gone"/></spine></package>',
            "OPS/b b.xhtml": "<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>Second</h1>"
            "<p>Größe</p></body></html>",
            "OPS/a.xhtml": "<?xml version='1.0' encoding='utf-8'?><html><body><h1>First</h1>"
            "<ol><li>one</li><li>two<ul><li>below</li></ul></li></ol></body></html>",
        },
        first="application/epub+zip",
    )
    extraction = extract(book)
    assert extraction.text == "# First\n\n1. one\n2. two\n  - below\n\n# Second\n\nGröße"
    assert extraction.title == "Valves"


# --- mails and archives ---


def mail(**attachments: bytes) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "Ada <ada@example.org>", "Bob <bob@example.org>"
    message["Subject"] = "Grüße vom Ventil"
    message["Date"] = "Thu, 01 Jan 2026 10:00:00 +0000"
    message.set_content("Dear Bob,\n\nthe valve opens at 41 °C, as you asked.\n")
    message.add_alternative("<p>Dear Bob,</p>", subtype="html")
    for name, data in attachments.items():
        file_name = name.replace("_", ".")
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=file_name)
    return message


@dataclass
class Found:
    """Members found within a file."""

    text: str
    members: Mapping[str, FoundMember]
    contents: Mapping[str, bytes]

    def reasons(self) -> dict[str, str]:
        """Return why members are not read."""
        return {
            path: error_pb2.ErrorReason.Name(one.failure.reason)
            for path, one in self.members.items()
            if one.failure
        }


@pytest.fixture
def find(sandbox: Sandbox) -> Any:
    def find(content: bytes, uri: str = "") -> Found:
        with closing(MemberSpool(None)) as spool:
            stream = DocumentExtractor(sandbox).read(GivenDocument(content, uri=uri), members=spool)
            text = "".join(segment.text for segment in stream.segments)
            contents = {
                one.path: b"".join(one.content.parts(1000))
                for one in spool.found
                if isinstance(one.content, FileContent)
            }
            return Found(text, {one.path: one for one in spool.found}, contents)

    return find


def test_a_mail_is_its_text_and_each_attachment_a_file_of_its_own(extract: Any, find: Any) -> None:
    table, inner = saved(workbook()), mail(notes_txt="größer".encode("latin-1")).as_bytes()
    content = mail(sales_xlsx=table, old_eml=inner, tool_bin=b"\x7fELF", empty_txt=b" \n").as_bytes()
    found = find(content, "a.eml")
    assert found.text.startswith(
        "# Grüße vom Ventil\n\nFrom: Ada <ada@example.org>\nTo: Bob <bob@example.org>\n"
    )
    assert "the valve opens at 41 °C, as you asked." in found.text
    assert found.text.endswith("Attachments: sales.xlsx, old.eml, tool.bin, empty.txt")
    assert list(found.members) == ["sales.xlsx", "old.eml", "old.eml!/notes.txt", "tool.bin", "empty.txt"]
    assert found.members["old.eml!/notes.txt"].container == "old.eml"
    assert found.contents == {
        "sales.xlsx": table,
        "old.eml": inner,
        "old.eml!/notes.txt": "größer".encode("latin-1"),
    }
    assert found.reasons() == {"tool.bin": "UNSUPPORTED_TYPE", "empty.txt": "EMPTY_TEXT"}
    extraction = extract(content, "a.eml")
    assert (extraction.text, extraction.title) == (found.text, "Grüße vom Ventil")


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_each_message_of_an_mbox_is_a_section(
    find: Any, extract: Any, tmp_path: Path, line_end: bytes
) -> None:
    box = mailbox.mbox(tmp_path / "box")
    box.add(mail(valves_csv=b"Name,Width\nA,4\n"))
    second = EmailMessage()
    second["From"], second["Subject"], second["To"] = "Bob <bob@example.org>", "Thanks", "ada@example.org"
    second.set_content("Thank you.\n\nFrom now on I know.\n")
    box.add(second)
    box.add(mail(valves_csv=b"Name,Width\nB,5\n"))
    box.close()
    content = (tmp_path / "box").read_bytes().replace(b"\n", line_end)
    assert b">From now" in content
    found = find(content)
    assert found.text.count("# Grüße vom Ventil\n\nFrom: Ada <ada@example.org>") == 2
    assert "# Thanks\n\nFrom: Bob <bob@example.org>\nTo: ada@example.org\n\nThank you.\n\nFrom now on" in (
        found.text.replace("\r", "")
    )
    assert list(found.members) == ["valves.csv", "valves (2).csv"]
    assert [title for _, title in titles(extract(content, "box.mbox", "application/mbox"))] == [
        "Grüße vom Ventil",
        "Thanks",
        "Grüße vom Ventil",
    ]


def test_lines_that_begin_like_envelopes_divide_no_mail(extract: Any) -> None:
    envelope = "From a@b.org Thu Jan  1 10:00:00 2026\n"
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "ada@example.org", "bob@example.org", "Logs"
    message.set_content(f"Dear Bob,\n\nFrom Ada at 10:00\nit was open.\n\n{envelope}Subject: x\n")
    alone = message.as_bytes()
    assert len(extract(alone).headings) == 1
    assert "Subject: x" in extract(alone).text
    in_box = envelope.encode() + alone.replace(envelope.encode() + b"Subject", b"")
    assert [title for _, title in titles(extract(in_box))] == ["Logs"]


def test_attachments_that_share_a_name_or_have_none_are_told_apart(find: Any) -> None:
    message = mail()
    for text in ("one", "two"):
        message.add_attachment(text, filename="same.txt")
    forwarded = EmailMessage()
    forwarded["Subject"], forwarded["From"] = "Re: prices/2026", "eve@example.org"
    forwarded.set_content("Forwarded.")
    message.add_attachment(forwarded)
    message.add_attachment("bare")
    message.add_attachment("up", filename="../../etc/a!/b.txt")
    found = find(message.as_bytes(), "a.eml")
    names = ["same.txt", "same (2).txt", "Re: prices-2026.eml", "attachment 4.txt", "etc/a/b.txt"]
    assert list(found.members) == names
    assert found.contents["same (2).txt"].strip() == b"two"


def test_base64_of_a_mail_is_not_taken_for_its_text(extract: Any) -> None:
    content = (
        b"From: a@example.org\r\nSubject: x\r\nMIME-Version: 1.0\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes("Der größte Wert ist 41.".encode())
    )
    assert extract(content).text.endswith("Der größte Wert ist 41.")


def test_an_archive_is_a_list_and_each_member_a_file_of_its_own(find: Any) -> None:
    parts: dict[str, bytes | str] = {
        "docs/guide.md": "# Valve\n\nOpens.",
        "docs/sales.csv": "Region,Q1\nNorth,5\n",
        "__MACOSX/docs/._guide.md": b"\x00\x05",
        "tool.bin": b"\x7fELF",
        "inner.zip": zip_of({"deep.txt": "Deep down."}),
    }
    found = find(zip_of(parts))
    assert found.text == "- docs/guide.md\n- docs/sales.csv\n- tool.bin\n- inner.zip"
    assert found.contents == {
        "docs/guide.md": b"# Valve\n\nOpens.",
        "docs/sales.csv": b"Region,Q1\nNorth,5\n",
        "inner.zip": parts["inner.zip"],
        "inner.zip!/deep.txt": b"Deep down.",
    }
    assert found.reasons() == {"tool.bin": "UNSUPPORTED_TYPE"}


def encrypted(archive: bytes, *names: str) -> bytes:
    """Return the archive with its members marked as encrypted: their bytes say nothing then."""
    changed = bytearray(archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        for entry in file.infolist():
            if entry.filename in names:
                changed[entry.header_offset + 6] |= 1
    at = changed.find(b"PK\x01\x02")
    while at >= 0:
        name = changed[at + 46 : at + 46 + int.from_bytes(changed[at + 28 : at + 30], "little")].decode()
        changed[at + 8] |= name in names
        at = changed.find(b"PK\x01\x02", at + 4)
    return bytes(changed)


def test_a_member_that_cannot_be_had_costs_no_other_one(find: Any) -> None:
    archive = zip_of({"secret.txt": "psst", "broken.txt": "text " * 1000, "open.txt": "Open."})
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        at = file.getinfo("broken.txt").header_offset + 30 + len("broken.txt")
    archive = archive[: at + 2] + b"\xff\xff" + archive[at + 4 :]
    found = find(encrypted(archive, "secret.txt"))
    assert found.contents == {"open.txt": b"Open."}
    assert found.reasons() == {"secret.txt": "ENCRYPTED_DOCUMENT", "broken.txt": "CORRUPT_DOCUMENT"}


def nested(depth: int) -> bytes:
    content: bytes | str = "text"
    for _ in range(depth):
        content = zip_of({"inner.zip" if isinstance(content, bytes) else "text.txt": content})
    assert isinstance(content, bytes)
    return content


def test_files_are_found_three_deep(find: Any) -> None:
    found = find(nested(8))
    three = "inner.zip!/inner.zip!/inner.zip"
    assert list(found.members) == ["inner.zip", "inner.zip!/inner.zip", three, f"{three}!/inner.zip"]
    assert found.reasons() == {f"{three}!/inner.zip": "DOCUMENT_TOO_LARGE"}


@pytest.mark.parametrize(
    "content",
    [
        zip_of({f"{n}.zip": zip_of({f"{m}.txt": "x" for m in range(500)}) for n in range(3)}),
        zip_of({f"{n}.zip": zip_of({"a.txt": "x" * (3 * 1024**2)}) for n in range(2)}),
    ],
    ids=["many", "large"],
)
def test_what_is_within_a_file_is_bounded_at_all_depths_together(find: Any, content: bytes) -> None:
    with pytest.raises(IngestionError) as raised:
        find(content)
    assert raised.value.failure.reason == error_pb2.DOCUMENT_TOO_LARGE


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (encrypted(zip_of({"a.txt": "x"}), "a.txt"), "ENCRYPTED_DOCUMENT"),
        (zip_of({f"{n}.txt": "x" for n in range(1001)}), "DOCUMENT_TOO_LARGE"),
        (zip_of({"a.txt": bytes(5 * 1024**2)}), "DOCUMENT_TOO_LARGE"),
        (zip_of({}), "EMPTY_TEXT"),
        (b"PK\x03\x04rest", "CORRUPT_DOCUMENT"),
        (zip_of({"xl/workbook.xml": "<x/>"}), "CORRUPT_DOCUMENT"),
        (zip_of({"ppt/presentation.xml": "<x/>"}), "CORRUPT_DOCUMENT"),
        (zip_of({"META-INF/container.xml": "<x/>"}), "CORRUPT_DOCUMENT"),
        (
            zip_of({"content.xml": "<x/>"}, first="application/vnd.oasis.opendocument.text"),
            "CORRUPT_DOCUMENT",
        ),
        (b"<?xml version='1.0'?><a><b></a>", "CORRUPT_DOCUMENT"),
        (b"{\\rtf1 \\ansi }", "EMPTY_TEXT"),
    ],
)
def test_what_is_too_much_closed_or_broken_is_refused(extract: Any, content: bytes, reason: str) -> None:
    with pytest.raises(IngestionError) as raised:
        extract(content)
    assert error_pb2.ErrorReason.Name(raised.value.failure.reason) == reason


# --- texts with marks ---


def test_rtf_is_read_in_its_own_code_page(extract: Any) -> None:
    source = (
        rb"{\rtf1\ansi\ansicpg1250{\info{\title Manual}}{\b Za\'b3\'f3\'9f}\par Opens at 41 \u176?C.\par "
        rb"\trowd\cellx1\cellx2 Valve\cell Width\cell\row\trowd\cellx1\cellx2 A\cell 4\cell\row}"
    )
    extraction = extract(source)
    assert extraction.text == "Załóź\n\nOpens at 41 °C.\n\n| Valve | Width |\n|---|---|\n| A | 4 |"
    assert extraction.title == "Manual"


@pytest.mark.parametrize(
    "source",
    [
        rb"{\rtf1\ansi Tighten to {\deleted\revauthdel1 9 Nm}{\revised 12 Nm}.}",
        rb"{\rtf1\ansi Tighten to \deleted 9\~\'4e{\b m}\u8364?\tab\deleted0 12 Nm.}",
        rb"{\rtf1\ansi Tighten to {\deleted 9 {\*\bkmkstart a}Nm\plain 12 Nm}.}",
        rb"{\rtf1\ansi {\deleted Gone.\par }Tighten to {\pict\bin4 {{{{}12 Nm.{\deleted\par}}",
    ],
    ids=["groups", "switches", "plain", "paragraphs"],
)
def test_what_tracked_changes_deleted_from_rtf_is_left_out(extract: Any, source: bytes) -> None:
    assert extract(source).text == "Tighten to 12 Nm."


def test_a_notebook_is_its_text_its_code_and_what_it_printed_without_pictures(extract: Any) -> None:
    cells: Sequence[dict[str, Any]] = [
        {"cell_type": "markdown", "source": ["# Valves\n", "\n", "Some text."]},
        {
            "cell_type": "code",
            "source": "print(41)\n# no heading",
            "outputs": [
                {"output_type": "stream", "text": ["41\n"]},
                {
                    "output_type": "display_data",
                    "data": {"image/png": "iVBOR" * 1000, "text/plain": "<Figure>"},
                },
            ],
        },
    ]
    notebook = {"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": cells}
    extraction = extract(json.dumps(notebook).encode(), "analysis.ipynb")
    assert extraction.text == (
        "# Valves\n\nSome text.\n\n```python\nprint(41)\n# no heading\n```\n\n"
        "```\n41\n```\n\n```\n<Figure>\n```"
    )
    assert titles(extraction) == [(1, "Valves")]


def test_xml_is_read_field_by_field_and_its_entities_reach_nothing(extract: Any) -> None:
    source = (
        b'<?xml version="1.0"?><!DOCTYPE f [<!ENTITY x SYSTEM "file:///etc/hostname">]><feed>'
        b"<entry lang='en'><title>Valve</title><size><width>4</width></size></entry>"
        b"<entry><title>Pump &x;</title><p>Some <b>bold</b> text.</p></entry></feed>"
    )
    assert extract(source).text == (
        "entry.lang: en\nentry.title: Valve\nentry.size.width: 4\n\n"
        "entry.title: Pump &x;\nentry.p: Some bold text."
    )


def test_of_an_svg_its_words_are_read(extract: Any) -> None:
    words = "<title>Plan</title><path d='M0 0'/><text>Valve <tspan>A</tspan></text>"
    source = f"<svg xmlns='http://www.w3.org/2000/svg'>{words}</svg>"
    assert extract(source, "plan.svg").text == "Plan\n\nValve A"


@pytest.mark.parametrize(
    ("text", "uri", "read"),
    [
        ("a,b\n1,2\n", "https://example.org/t.csv?x=1", "a: 1\nb: 2"),
        ('{"a": {"b": 1}}', "t.json", "a.b: 1"),
        ("<h1>Valve</h1><p>Opens.</p>", "t.html", "# Valve\n\nOpens."),
        ("<svg><text>Plan</text></svg>", "t.svg", "Plan"),
    ],
)
def test_a_text_is_read_as_what_its_uri_says(extract: Any, text: str, uri: str, read: str) -> None:
    assert extract(text, uri).text == read


# --- HTML ---


def page(main: str) -> bytes:
    return (
        "<html><head><title>Valves</title><link rel='stylesheet' href='x.css'></head><body>"
        "<header>Shop</header>"
        f"<nav><a href='/'>Home</a></nav><main>{main}</main><footer>Imprint</footer></body></html>"
    ).encode()


@pytest.mark.parametrize(
    ("main", "text"),
    [
        (
            "<ol start='3'><li>three</li><li>four<ol><li>one</li></ol></li></ol>",
            "3. three\n4. four\n  1. one",
        ),
        (
            "<table><caption>Widths</caption><tr><th>Valve</th><th colspan=2>2026</th></tr>"
            "<tr><td rowspan=2>A</td><td>1</td><td></td></tr><tr><td>2</td><td>3</td></tr></table>",
            "Widths\n\n| Valve | 2026 | 2026 |\n|---|---|---|\n| A | 1 |  |\n| A | 2 | 3 |",
        ),
        ("<pre>if x:\n    y()</pre>", "```\nif x:\n    y()\n```"),
        ("<p>see <a href='#f1'>note<sup>1</sup></a><br>next</p>", "see note[1]\nnext"),
        ("<p><img src='a.png' alt='A cut through the valve'></p>", "A cut through the valve"),
        ("<dl><dt>DN</dt><dd>width</dd></dl>", "DN\n- width"),
        ("<div>loose <b>bold</b><p>own</p>after</div>", "loose bold\n\nown\n\nafter"),
        ("<p hidden>no</p><p style='display: none'>no</p><p># no heading</p>", "\\# no heading"),
    ],
)
def test_html_keeps_numbers_spans_code_notes_and_descriptions(extract: Any, main: str, text: str) -> None:
    assert extract(page(main)).text == text


def test_html_that_is_nested_without_end_is_read(extract: Any) -> None:
    assert "deep" in extract(page("<div>" * 1500 + "deep")).text


# --- DOCX: see also test_extraction_files ---


def test_a_docx_made_by_word_is_told_from_its_content_not_its_name(extract: Any) -> None:
    document = docx.Document()
    document.add_paragraph("Opens at 41 degrees.")
    assert extract(saved(document), "notes.xlsx").text == "Opens at 41 degrees."


def test_lists_of_a_docx_count_as_word_does(extract: Any) -> None:
    document = docx.Document()
    for text, style in [
        ("one", "List Number"),
        ("two", "List Number"),
        ("a point", "List Bullet"),
        ("three", "List Number"),
    ]:
        document.add_paragraph(text, style=style)
    assert extract(saved(document)).text == "1. one\n2. two\n- a point\n3. three"


def test_cells_that_a_docx_merges_say_the_same_in_each_of_their_places(extract: Any) -> None:
    document = docx.Document()
    table = document.add_table(3, 3)
    for row, texts in zip(table.rows, (("Valve", "2026", ""), ("A", "1", "2"), ("", "3", "")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(1, 0).merge(table.cell(2, 0))
    assert extract(saved(document)).text == (
        "| Valve | 2026 | 2026 |\n|---|---|---|\n| A | 1 | 2 |\n| A | 3 |  |"
    )


def test_a_docx_is_read_with_its_comments_headers_and_footers(extract: Any) -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Confidential"
    document.sections[0].footer.paragraphs[0].text = "Page 1 of 2"
    paragraph = document.add_paragraph("Opens at 41 degrees.")
    document.add_comment(paragraph.runs, text="Fahrenheit?", author="Ada")
    assert extract(saved(document)).text == (
        "Opens at 41 degrees.[1]\n\n[1] Comment by Ada: Fahrenheit?\n\nConfidential"
    )


def test_footnotes_and_deletions_of_a_docx_are_what_they_are(extract: Any) -> None:
    document = docx.Document()
    document.add_paragraph("Opens at 41 degrees.")
    with zipfile.ZipFile(io.BytesIO(saved(document))) as archive:
        parts: dict[str, Any] = {name: archive.read(name) for name in archive.namelist()}
    for name in ("word/document.xml", "word/_rels/document.xml.rels", "[Content_Types].xml"):
        parts[name] = parts[name].decode()
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    parts["word/document.xml"] = parts["word/document.xml"].replace(
        "</w:r></w:p>",
        '<w:footnoteReference w:id="2"/></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>',
        1,
    )
    parts["word/footnotes.xml"] = (
        f'<w:footnotes xmlns:w="{namespace}"><w:footnote w:type="separator" w:id="0"/>'
        '<w:footnote w:id="2"><w:p><w:r><w:t>Celsius.</w:t></w:r></w:p></w:footnote></w:footnotes>'
    )
    relation = f'<Relationship Id="n" Type="{kinds}/footnotes" Target="footnotes.xml"/></Relationships>'
    relations = parts["word/_rels/document.xml.rels"]
    parts["word/_rels/document.xml.rels"] = relations.replace("</Relationships>", relation)
    parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace(
        "</Types>", '<Override PartName="/word/footnotes.xml" ContentType="application/xml"/></Types>'
    )
    assert extract(zip_of(parts)).text == "Opens at 41 degrees.[1]\n\n[1] Celsius."
