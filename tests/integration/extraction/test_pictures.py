"""Pictures that readers find in documents, and descriptions put where they stand."""

import base64
import io
import zipfile
from collections.abc import Callable
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from groundline.v1 import error_pb2
from groundline_extraction.descriptions import PlacedDescription, kept_pictures, with_descriptions
from groundline_extraction.documents import GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.readers.building import MAX_PICTURES
from groundline_extraction.readers.common import PicturePart
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.texts import TextSegment
from groundline_tests.extraction.files import opendocument, saved
from openpyxl.drawing.image import Image as SheetImage
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

type Found = tuple[list[TextSegment], list[PicturePart]]


def picture(color: str, *, side: int = 200, file_format: str = "PNG") -> bytes:
    """Return a picture with a colour of its own in the middle of noise, so that its file is not small."""
    image = Image.effect_noise((100, 100), 60).convert("RGB").resize((side, side))
    image.paste(Image.new("RGB", (side // 2, side // 2), color), (side // 4, side // 4))
    out = io.BytesIO()
    image.save(out, file_format)
    return out.getvalue()


def color_of(part: PicturePart) -> tuple[int, ...]:
    """Return the colour in the middle, rounded to what survives JPEG."""
    image = Image.open(io.BytesIO(part.data))
    assert image.format == "JPEG"
    found: Any = image.getpixel((image.width // 2, image.height // 2))
    return tuple(round(each / 255) for each in found)


def text_with(data: bytes) -> bytes:
    """Return an OpenDocument text with a picture."""
    body = '<text:p>Text.<draw:frame><draw:image xlink:href="Pictures/1.png"/></draw:frame></text:p>'
    file = io.BytesIO(opendocument("text", body))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("Pictures/1.png", data)
    return file.getvalue()


RED, GREEN, BLUE = (1, 0, 0), (0, 1, 0), (0, 0, 1)


@pytest.fixture
def found_in(sandbox: Sandbox) -> Callable[[bytes], Found]:
    def found_in(content: bytes) -> Found:
        with kept_pictures(None) as pictures:
            stream = DocumentExtractor(sandbox).read(GivenDocument(content), pictures=pictures)
            return list(stream.segments), list(pictures)

    return found_in


def described(found: Found) -> str:
    """Return the text with the colour of each picture where it stands."""
    segments, pictures = found
    names: dict[tuple[int, ...], str] = {RED: "[red]", GREEN: "[green]", BLUE: "[blue]"}
    descriptions = [PlacedDescription(one.start, names[color_of(one)], one.edges) for one in pictures]
    return "".join(segment.text for segment in with_descriptions(segments, descriptions))


@pytest.mark.parametrize("data", [b"no picture" * 1000, picture("red")[:-9000], picture("red", side=80)])
def test_a_picture_broken_or_very_small_is_left_out(found_in: Callable[[bytes], Found], data: bytes) -> None:
    segments, pictures = found_in(text_with(data))
    assert ([one.text for one in segments], pictures) == (["Text."], [])


def test_a_document_gives_a_limited_number_of_pictures_each_once(found_in: Callable[[bytes], Found]) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    again = picture("blue", side=100)
    for _ in range(MAX_PICTURES + 3):
        slide.shapes.add_picture(io.BytesIO(again), 0, 0)
        slide.shapes.add_picture(io.BytesIO(picture("red", side=100)), 0, 0)
    _, pictures = found_in(saved(deck))
    assert [color_of(one) for one in pictures] == [BLUE, *[RED] * (MAX_PICTURES - 1)]


def test_a_picture_that_is_a_document_takes_no_text(found_in: Callable[[bytes], Found]) -> None:
    segments, [found] = found_in(picture("green", side=1500, file_format="WEBP"))
    assert segments == []
    assert max(Image.open(io.BytesIO(found.data)).size) <= 1280
    [segment] = with_descriptions(segments, [PlacedDescription(found.start, "[green]", found.edges)])
    assert segment.text == "[green]"
    [page] = segment.pages
    assert (page.page, list(page.starts), list(page.rights), list(page.heights)) == (1, [0], [2000], [2000])


def test_without_a_wish_for_pictures_it_cannot_be_read(sandbox: Sandbox) -> None:
    with pytest.raises(IngestionError) as failure:
        DocumentExtractor(sandbox).extract(GivenDocument(picture("green")))
    assert failure.value.failure.reason == error_pb2.OCR_NOT_AVAILABLE


def test_pictures_of_docx_stand_behind_paragraphs_before_tables(found_in: Callable[[bytes], Found]) -> None:
    document = docx.Document()
    document.add_paragraph("First.")
    document.add_picture(io.BytesIO(picture("red")))
    document.add_heading("Second", 1)
    table = document.add_table(rows=2, cols=1)
    table.cell(0, 0).text = "Head"
    table.cell(1, 0).paragraphs[0].add_run("Cell").add_picture(io.BytesIO(picture("green")))
    document.add_paragraph("Last.")
    found = found_in(saved(document))
    assert described(found) == (
        "First.\n\n[red]\n\n# Second\n\n[green]\n\n| Head |\n|---|\n| Cell |\n\nLast."
    )
    segments, pictures = found
    moved = list(with_descriptions(segments, [PlacedDescription(one.start, "[x]") for one in pictures]))
    text = "".join(one.text for one in moved)
    [heading] = moved[0].headings
    [table_rows] = moved[0].tables
    assert text[heading.start :].startswith("# Second")
    assert text[table_rows.rows[0].start :].startswith("| Cell |")


def test_pictures_of_pptx_are_on_their_slides(found_in: Callable[[bytes], Found]) -> None:
    deck = pptx.Presentation()
    for title, color in (("One", "red"), ("Two", "blue")):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
        slide.shapes.add_picture(io.BytesIO(picture(color)), 0, 0)
    assert described(found_in(saved(deck))) == "## One\n\n[red]\n\n\f\n\n## Two\n\n[blue]"


def workbook(*pictures: tuple[str, bytes]) -> bytes:
    """Return a workbook with a title, a table and a last sheet, and pictures by their cells on the first."""
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in (["Parts"], ["Name", "Width"], ["DN-4", 4], ["DN-6", 6]):
        sheet.append(row)
    for cell, data in pictures:
        sheet.add_image(SheetImage(io.BytesIO(data)), cell)
    book.create_sheet("Last").append(["End."])
    return saved(book)


def test_pictures_of_xlsx_stand_behind_the_rows_they_begin_in(found_in: Callable[[bytes], Found]) -> None:
    again = picture("green")
    found = found_in(workbook(("C9", again), ("D3", picture("blue")), ("A1", picture("red")), ("A12", again)))
    assert described(found) == (
        "## Sheet\n\nParts\n\n[red]\n\nName: DN-4\nWidth: 4\n\n[blue]\n\nName: DN-6\nWidth: 6\n\n[green]"
        "\n\n## Last\n\nEnd."
    )
    segments, pictures = found
    [moved] = with_descriptions(segments, [PlacedDescription(one.start, "[x]") for one in pictures])
    [table] = moved.tables
    assert [(row.number, moved.text[row.start :][:10]) for row in table.rows] == [
        (3, "Name: DN-4"),
        (4, "Name: DN-6"),
    ]


def test_a_workbook_is_read_without_pictures_that_it_lacks(found_in: Callable[[bytes], Found]) -> None:
    content = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(workbook(("A3", picture("red")), ("A4", picture("blue"))))) as before,
        zipfile.ZipFile(content, "w") as after,
    ):
        for name in before.namelist():
            data = before.read(name)
            if name == "xl/drawings/_rels/drawing1.xml.rels":
                data = data.replace(
                    b'"/xl/media/image2.png"', b'"/xl/media/image2.png" TargetMode="External"'
                )
                assert b"External" in data
            if name != "xl/media/image1.png":
                after.writestr(name, data)
    segments, pictures = found_in(content.getvalue())
    assert pictures == []
    assert segments[0].text.startswith("## Sheet\n\nParts\n\nName: DN-4")


def data_uri(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("filler", ["", "x " * (5 << 20)], ids=["short", "long"])
def test_pictures_of_a_page_stand_where_it_has_them(found_in: Callable[[bytes], Found], filler: str) -> None:
    red = data_uri(picture("red")).rstrip("=").replace("+", "%2B")
    page = (
        f"<!doctype html><title>T</title><p>First.</p><img src='{red}'><h1>Second</h1>"
        f"<figure><img alt='A valve' src='{data_uri(picture('blue', file_format='JPEG'), 'IMAGE/jpeg')}'>"
        f"<figcaption>Caption</figcaption></figure><!--{filler}--><p>Last.</p>"
    )
    assert described(found_in(page.encode())) == (
        "First.\n\n[red]\n\n# Second\n\n[blue]\n\nA valve\n\nCaption\n\nLast."
    )


@pytest.mark.parametrize(
    "src",
    [
        "http://127.0.0.1/a.png",
        "file:///etc/hostname",
        "data:image/png,plain",
        "data:image/png;base64,A",
        "data:image/png;base64,\N{SNOWMAN}",
        data_uri(picture("red"), "text/plain"),
        data_uri(picture("red")[:-9000]),
        data_uri(picture("red", side=80)),
        data_uri(b"<svg xmlns='http://www.w3.org/2000/svg'/>" * 100, "image/svg+xml"),
    ],
)
def test_a_page_is_read_without_pictures_that_it_does_not_hold_or_that_are_broken(
    found_in: Callable[[bytes], Found], src: str
) -> None:
    page = f"<!doctype html><title>T</title><p>Text.</p><img src='{src}'>"
    segments, pictures = found_in(page.encode())
    assert ([one.text for one in segments], pictures) == (["Text."], [])


def test_a_page_that_is_one_picture_takes_no_text(found_in: Callable[[bytes], Found]) -> None:
    page = f"<!doctype html><title>T</title><img src='{data_uri(picture('green'))}'>"
    assert described(found_in(page.encode())) == "[green]"


def test_pictures_of_pdf_are_on_their_pages_and_in_their_place(found_in: Callable[[bytes], Found]) -> None:
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(600, 800))
    canvas.drawString(60, 760, "First page.")
    canvas.drawImage(ImageReader(io.BytesIO(picture("red"))), 60, 400, 300, 200)
    canvas.drawImage(ImageReader(io.BytesIO(picture("blue"))), 60, 40, 30, 30)
    canvas.showPage()
    canvas.drawImage(ImageReader(io.BytesIO(picture("green"))), 0, 0, 600, 800)
    canvas.showPage()
    canvas.drawImage(ImageReader(io.BytesIO(picture("green"))), 0, 0, 600, 800)
    canvas.drawString(60, 760, "Above a background.")
    canvas.showPage()
    canvas.setPageRotation(90)
    canvas.drawImage(ImageReader(io.BytesIO(picture("blue"))), 60, 100, 300, 200)
    canvas.save()
    found = found_in(out.getvalue())
    assert described(found) == (
        "First page.\n\n[red]\n\n\f\n\n[green]\n\n\f\n\nAbove a background.\n\n\f\n\n[blue]"
    )
    segments, pictures = found
    assert [tuple(one.edges or ()) for one in pictures] == [
        (1, 0, 200, 500, 1200, 1000),
        (2, 0, 0, 0, 2000, 2000),
        (4, 0, 333, 149, 1000, 900),
    ]
    *_, last = with_descriptions(
        segments, [PlacedDescription(one.start, "[x]", one.edges) for one in pictures]
    )
    assert [(page.page, len(page.starts)) for page in last.pages] == [(1, 2), (2, 1), (3, 1), (4, 1)]
    assert list(last.pages[0].starts) == [0, len("First page.\n\n")]


def test_descriptions_are_put_into_the_segments_that_they_stand_in() -> None:
    segments = [TextSegment("One.\n\n"), TextSegment("Two.", start=6)]
    descriptions = [PlacedDescription(at, f"[{at}]") for at in (99, 4, 0, 10, 4)]
    moved = list(with_descriptions(segments, descriptions))
    assert [one.text for one in moved] == ["[0]\n\nOne.\n\n[4]\n\n[4]\n\n", "Two.\n\n[10]\n\n[99]"]
    assert [one.start for one in moved] == [0, len(moved[0].text)]


def test_an_opendocument_gives_its_pictures(found_in: Callable[[bytes], Found]) -> None:
    assert described(found_in(text_with(picture("blue")))) == "Text.\n\n[blue]"
