"""Documents of office programs and e-books: what of them is read."""

import io
import zipfile
from collections.abc import Callable
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from docx.shared import Inches
from groundline_extraction.formats import DOCX, PPTX, XLSX
from groundline_tests.extraction.files import ODF, opendocument, presentation, saved, titles, workbook, zip_of
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI


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


@pytest.mark.parametrize(
    "comments",
    [
        "<p:cmLst xmlns:p='urn:p'><p:cm><p:text>Too dark.</p:text></p:cm>"
        "<p:cm><p:text>Agreed.</p:text></p:cm></p:cmLst>",
        "<n:cmLst xmlns:n='urn:n' xmlns:a='urn:a'><n:cm><n:replyLst><n:reply><n:txBody><a:t>Agreed.</a:t>"
        "</n:txBody></n:reply></n:replyLst><n:txBody><a:t>Too </a:t><a:t>dark.</a:t></n:txBody></n:cm>"
        "</n:cmLst>",
    ],
    ids=["old", "new"],
)
def test_comments_on_a_slide_are_read_behind_it(extract: Any, comments: str) -> None:
    deck = pptx.Presentation(io.BytesIO(presented()))
    attach(deck.slides[0].part, "comments", comments)
    assert extract(saved(deck)).text == "## Mounting\n\n### Comments\n\n- Too dark.\n- Agreed."


def test_the_texts_of_a_diagram_are_read_as_a_list(extract: Any) -> None:
    deck = pptx.Presentation(io.BytesIO(presented()))
    slide = deck.slides[0]
    points = "".join(f"<d:pt><d:t><a:t>{text}</a:t></d:t></d:pt>" for text in ("plan", "", "build"))
    drawing = "http://schemas.openxmlformats.org/drawingml/2006"
    relation = attach(
        slide.part,
        "diagramData",
        f"<d:dataModel xmlns:d='{drawing}/diagram' xmlns:a='{drawing}/main'>{points}</d:dataModel>",
    )
    frame = slide.shapes.add_table(1, 1, 0, 0, 9, 9)._element
    data = frame.find(".//{*}graphicData")
    data.set("uri", f"{drawing}/diagram")
    data.remove(data[0])
    ids = data.makeelement(f"{{{drawing}/diagram}}relIds")
    ids.set("{http://schemas.openxmlformats.org/officeDocument/2006/relationships}dm", relation)
    data.append(ids)
    assert extract(saved(deck)).text == "## Mounting\n\n- plan\n- build"


def attach(part: Any, kind: str, content: str) -> str:
    """Attach an XML part to another, and return the id of the relation."""
    name = PackURI(f"/ppt/{kind}/{kind}1.xml")
    xml = Part(name, "application/xml", part.package, content.encode())
    return str(
        part.relate_to(xml, f"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}")
    )


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


def test_tables_and_boxes_in_the_header_of_a_docx_are_read(extract: Any) -> None:
    document = docx.Document()
    document.add_paragraph("Dear Ada,")
    header = document.sections[0].header
    cells = header.add_table(1, 2, Inches(6)).rows[0].cells
    cells[0].text, cells[1].text = "Valves Ltd", "Oslo"
    box = "<w:txbxContent><w:p><w:r><w:t>Boxed</w:t></w:r></w:p></w:txbxContent>"
    drawn = (
        f"<mc:Choice><w:drawing>{box}</w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback>"
    )
    names = (
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    )
    header.paragraphs[0]._p.append(
        parse_xml(f"<w:r {names}><mc:AlternateContent>{drawn}</mc:AlternateContent></w:r>")
    )
    assert extract(saved(document)).text == "Dear Ada,\n\nBoxed\nValves Ltd\nOslo"


def test_an_opendocument_whose_parts_were_packed_in_another_order_is_told(extract: Any) -> None:
    with zipfile.ZipFile(io.BytesIO(opendocument("text", "<text:p>Opens.</text:p>"))) as archive:
        parts = {name: archive.read(name) for name in reversed(archive.namelist())}
    assert extract(zip_of(parts)).text == "Opens."


@pytest.mark.parametrize(
    ("number_format", "value", "shown"),
    [("0%", 0.025, "3%"), ("0.0", 0.25, "0.3"), ("0.00", -1.005, "-1.01"), ("0", 10**20, "1" + "0" * 20)],
)
def test_halves_are_rounded_up_as_shown(extract: Any, number_format: str, value: float, shown: str) -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.append(["Part", "Share"])
    sheet.append(["Valve", value])
    sheet["B2"].number_format = number_format
    assert extract(saved(book)).text.endswith(f"Share: {shown}")


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
