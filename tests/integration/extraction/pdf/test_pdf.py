"""Extraction of PDF files, drawn here by reportlab, which writes them as other programs do."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from groundline_extraction.readers.common import LINE_UNITS, ReadError
from groundline_extraction.sandbox import Sandbox
from groundline_tests.extraction.pdf import OCR_DATA, PROSE, Draw, lines, table, wrapped
from groundline_tests.programs import needs_program
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

needs_tesseract = needs_program("tesseract-ocr", found=bool(OCR_DATA))


OPTIONS = [
    ("-a", "Each variable or function that is created is given the export charac-"),
    ("", "ter and marked for the environment of later commands."),
    ("-b", "The status of jobs that end is reported at once, rather than before"),
    ("", "the next prompt."),
]


def hanging(canvas: Canvas, rows: Sequence[tuple[str, str]]) -> None:
    for number, (mark, text) in enumerate(rows):
        canvas.drawString(60, 700 - 14 * number, mark)
        canvas.drawString(120, 700 - 14 * number, text)


def test_a_hanging_indent_is_text_with_whole_words_and_a_line_for_each_mark(read: Any) -> None:
    assert read(lambda canvas: hanging(canvas, OPTIONS)).text == (
        "-a Each variable or function that is created is given the export character and marked for the "
        "environment of later commands.\n"
        "-b The status of jobs that end is reported at once, rather than before the next prompt."
    )


def test_a_list_whose_text_hangs_far_from_its_bullets_is_no_table(read: Any) -> None:
    items = [("•", "the open files"), ("•", "the current directory"), ("•", "the mask of modes")]
    assert read(lambda canvas: hanging(canvas, items)).text == (
        "• the open files\n• the current directory\n• the mask of modes"
    )


def test_two_columns_of_names_and_phrases_stay_a_table(read: Any) -> None:
    rows = [("Option", "Meaning"), ("depth", "how far links are followed"), ("limit", "how many pages")]
    assert read(lambda canvas: hanging(canvas, rows)).text == (
        "| Option | Meaning |\n|---|---|\n| depth | how far links are followed |\n| limit | how many pages |"
    )


def test_a_table_of_contents_is_a_line_for_each_entry(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        for number, (name, page) in enumerate([("Introduction", "1"), ("Valves", "3"), ("Pumps", "12")]):
            y = 700 - 14 * number
            canvas.drawString(60, y, str(number + 1))
            canvas.drawString(90, y, name + " ." * 60)
            canvas.drawRightString(500, y, page)

    assert read(draw).text == "1 Introduction … 1\n2 Valves … 3\n3 Pumps … 12"


def test_leaders_before_several_figures_stay_a_table(read: Any) -> None:
    rows = [["", "2025", "2026"], ["Revenue .......", "1,234", "1,310"], ["Costs .........", "987", "1,002"]]
    assert read(lambda canvas: table(canvas, rows)).text.endswith(
        "| Revenue | 1,234 | 1,310 |\n| Costs | 987 | 1,002 |"
    )


def test_columns_that_are_drawn_line_by_line_are_read_one_after_the_other(read: Any) -> None:
    left, right = wrapped(PROSE.replace("valve", "pump") * 3, 45), wrapped(PROSE * 3, 45)

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Times-Bold", 18)
        canvas.drawString(60, 790, "A title that stands across both of the columns")
        canvas.setFont("Times-Roman", 10)
        for number, pair in enumerate(zip(left, right, strict=False)):
            for x, text in zip((50, 310), pair, strict=True):
                canvas.drawString(x, 760 - 13 * number, text)

    text = " ".join(read(draw).text.split())
    assert text.startswith("# A title that stands across both of the columns The relief pump opens")
    assert text.rindex("pump") < text.index("valve")


def test_words_that_a_line_divides_are_whole_again(read: Any) -> None:
    text = read(
        lambda canvas: lines(
            canvas, ["The valve must be main-", "tained each year; see the well-", "Known list."]
        )
    ).text
    assert text == "The valve must be maintained each year; see the well- Known list."


def test_what_runs_through_all_pages_is_left_out(read: Any) -> None:
    def page(number: int) -> Draw:
        def draw(canvas: Canvas) -> None:
            canvas.drawString(60, 810, "Handbook of valves")
            canvas.drawString(280, 30, f"Page {number} of 5")
            lines(canvas, [f"Only on page {number}.", "Chapter text."], y=700)

        return draw

    found = read(*map(page, range(1, 6)))
    assert "Handbook" not in found.text
    assert " of 5" not in found.text
    assert [f"Only on page {number}" in found.text for number in range(1, 6)] == [True] * 5


def test_form_feeds_divide_pages_and_blank_ones_count(read: Any) -> None:
    found = read(
        lambda canvas: lines(canvas, ["First."]),
        lambda canvas: None,
        lambda canvas: lines(canvas, ["Third."]),
    )
    assert found.text == "First.\n\n\f\n\n\f\n\nThird."


def test_headings_are_told_by_their_font(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        y = 780
        for font, size, text in [
            ("Times-Bold", 20, "Valves"),
            ("Times-Bold", 14, "Mounting"),
            ("Times-Roman", 11, PROSE),
            ("Times-Bold", 11, "Tools"),
            ("Times-Roman", 11, PROSE),
        ]:
            canvas.setFont(font, size)
            texts = wrapped(text, 90)
            lines(canvas, texts, y=y)
            y -= 14 * len(texts) + 14

    found = read(draw)
    assert [tuple(heading[:2]) for heading in found.headings] == [
        (1, "Valves"),
        (2, "Mounting"),
        (3, "Tools"),
    ]
    assert all(found.text[start:].lstrip("# ").startswith(title) for _, title, start in found.headings)


def test_the_outline_decides_the_levels_of_what_it_names(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        for number, (title, level) in enumerate([("Valves", 0), ("Mounting", 1), ("Not in the text", 1)]):
            canvas.bookmarkPage(title)
            canvas.addOutlineEntry(title, title, level)
            if number < 2:
                lines(canvas, [title], y=780 - 100 * number)
                lines(canvas, wrapped(PROSE, 90), y=760 - 100 * number)

    found = read(draw)
    assert [tuple(heading[:2]) for heading in sorted(found.headings, key=lambda heading: heading[1])] == [
        (2, "Mounting"),
        (2, "Not in the text"),
        (1, "Valves"),
    ]
    assert found.text.startswith("# Valves\n\n")


def test_code_keeps_its_indentation(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        lines(canvas, wrapped(PROSE, 90))
        canvas.setFont("Courier", 10)
        lines(canvas, ["def f(x):", "    if x:", "        return 1", "    return  2"], y=600, step=12)

    assert read(draw).text.endswith("```\ndef f(x):\n    if x:\n        return 1\n    return  2\n```")


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Valve manual", "Valve manual"),
        ("untitled", ""),
        ("(anonymous)", ""),
        ("Untitled-1", ""),
        ("Document1", ""),
        ("Microsoft Word - Valve manual.docx", "Valve manual"),
        ("layout.indd", ""),
    ],
)
def test_titles_that_programs_write_are_none(read: Any, title: str, shown: str) -> None:
    assert read(lambda canvas: lines(canvas, ["Text."]), title=title).title == shown


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_page_that_is_shown_turned_is_read_as_it_is_shown(read: Any, rotation: int) -> None:
    def draw(canvas: Canvas) -> None:
        match rotation:  # as a program draws that wants it upright when it is turned
            case 90:
                canvas.translate(A4[0], 0)
            case 180:
                canvas.translate(*A4)
            case _:
                canvas.translate(0, A4[1])
        canvas.rotate(rotation)
        lines(canvas, wrapped(PROSE, 70), y=400)

    assert read(draw, rotation=rotation).text == PROSE.strip()


def test_each_line_and_each_cell_tells_where_it_is(read: Any) -> None:
    """The text at a line's offset is drawn in its box, however it came to be."""
    drawn = {
        "Valves": (60, 760),
        "# not a heading": (60, 720),
        "The second pres-": (60, 705),
        "sure": (60, 690),
    }

    def first(canvas: Canvas) -> None:
        canvas.setFont("Times-Bold", 18)
        canvas.drawString(60, 760, "Valves")
        canvas.setFont("Times-Roman", 11)
        for text, (x, y) in [*drawn.items()][1:]:
            canvas.drawString(x, y, text)
        table(canvas, [["Type", "Nm"], ["A|4", "9"]], ("GRID", (0, 0), (-1, -1), 1, colors.black), y=500)

    def second(canvas: Canvas) -> None:
        canvas.setFont("Courier", 10)
        lines(canvas, ["if x:", "    return 7"], x=100, y=600, step=12)
        canvas.acroForm.textfield(name="note", value="Call.", x=60, y=300, width=120, height=20)

    found = read(first, second)
    begins = [
        (line.page, found.text[line.start : following.start]) for line, following in pairwise(found.lines)
    ]
    assert [(page, text.split("\n")[0].strip(" |")) for page, text in begins] == [
        (1, "Valves"), (1, "\\# not a heading"), (1, "The second pres"), (1, "sure"), (1, "Type"), (1, "Nm"),
        (1, "A\\|4"), (1, "9"), (2, "if x:"), (2, "return 7"),
    ]  # fmt: skip
    assert found.text[found.lines[-1].start :] == "note: Call."
    for line, (x, y) in zip(found.lines, [*drawn.values()], strict=False):
        assert line.left <= (x + 5) / A4[0] * LINE_UNITS <= line.right
        assert line.top <= (1 - (y + 4) / A4[1]) * LINE_UNITS <= line.bottom
    field = found.lines[-1]
    assert field.left == pytest.approx(60 / A4[0] * LINE_UNITS, abs=2)
    assert field.bottom == pytest.approx((1 - 300 / A4[1]) * LINE_UNITS, abs=2)


def test_letters_beyond_the_basic_plane_count_once_in_the_places_of_lines(sandbox: Sandbox) -> None:
    found = sandbox.read("pdf.reader", pdf_of(["V is the voltage of V and V,", "and is released.", "V"]))
    assert found.text == "𝑉 is the voltage of 𝑉 and 𝑉, and is released.\n𝑉"
    assert [line.start for line in found.lines] == [0, 29, 46]


def pdf_of(texts: Sequence[str]) -> bytes:
    """Return a page in whose font V stands for an italic V of mathematics, as Word writes formulas."""
    shown = "".join(f"({text}) Tj 0 -14 Td " for text in texts)
    streams = ["1 beginbfchar <56> <D835DC49> endbfchar", f"BT /F 11 Tf 60 700 Td {shown} ET"]
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 6 0 R"
        " /Resources << /Font << /F 4 0 R >> >> >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /ToUnicode 5 0 R >>",
        *(f"<< /Length {len(stream)} >> stream\n{stream}\nendstream" for stream in streams),
    ]
    body = "".join(f"{number} 0 obj {text} endobj\n" for number, text in enumerate(objects, 1))
    return f"%PDF-1.7\n{body}trailer << /Root 1 0 R >>\n%%EOF".encode()


def test_letters_far_off_the_page_are_left_out_and_hold_nothing_up(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        lines(canvas, wrapped(PROSE * 3, 80))
        canvas.drawString(3e6, 400, "Astray")
        canvas.drawString(60, -3e6, "Lost")

    found = read(draw)
    assert "The relief valve opens" in found.text
    assert "Astray" not in found.text
    assert "Lost" not in found.text


def test_a_watermark_at_an_angle_is_left_out(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        lines(canvas, wrapped(PROSE, 90))
        canvas.translate(100, 300)
        canvas.rotate(45)
        canvas.setFont("Times-Bold", 60)
        canvas.drawString(0, 0, "DRAFT")

    assert read(draw).text == PROSE.strip()


@needs_tesseract
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_a_scan_is_read_whichever_way_up_and_says_how_sure_it_is(read: Any, degrees: int) -> None:
    picture = Image.new("L", (1654, 1200), 255)
    pen = ImageDraw.Draw(picture)
    for number, text in enumerate(wrapped(PROSE * 2, 60)):
        pen.text((80, 60 + 60 * number), text, fill=0, font=ImageFont.load_default(40))
    turned = picture.rotate(degrees, expand=True)

    def draw(canvas: Canvas) -> None:
        width = 400 if degrees % 180 == 0 else 290
        canvas.drawImage(
            ImageReader(turned), 50, 200, width=width, height=width * turned.height / turned.width
        )

    found = read(draw)
    assert " ".join(found.text.split()) == (PROSE * 2).strip()
    assert found.metadata["ocr_confidence"] > 0.8
    x, y = 0.2, 84 / 1200  # within the first line
    for _ in range(degrees // 90):
        x, y = y, 1 - x
    width = 400 if degrees % 180 == 0 else 290
    height = width * turned.height / turned.width
    [first, *_] = found.lines
    assert (first.page, first.start) == (1, 0)
    assert first.left < (50 + x * width) / A4[0] * LINE_UNITS < first.right
    assert first.top < (A4[1] - 200 - height + y * height) / A4[1] * LINE_UNITS < first.bottom


def test_what_stands_at_the_edge_of_both_of_two_pages_is_left_out(read: Any) -> None:
    def page(number: int) -> Draw:
        def draw(canvas: Canvas) -> None:
            canvas.setFont("Helvetica", 16)
            canvas.drawString(60, 820, "ACME Annual Report")
            canvas.drawString(60, 20, f"Page {number} of 2")
            lines(canvas, [f"Text of page {number}."])

        return draw

    assert read(page(1), page(2)).text == "Text of page 1.\n\n\f\n\nText of page 2."


def test_a_page_full_of_lines_is_read_in_time(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        for number in range(20_000):
            canvas.line(number % 500, number % 700, number % 500 + 40, number % 700)
        lines(canvas, ["Text."])

    assert read(draw).text == "Text."


def test_what_a_form_was_filled_in_with_is_read_below_its_page(read: Any) -> None:
    def draw(canvas: Canvas) -> None:
        lines(canvas, ["Application"])
        form = canvas.acroForm
        form.textfield(name="form1[0].Name[0]", value="Zoë Müller", x=60, y=600)
        form.textfield(name="street", tooltip="Street and number", value="Am Kai 4", x=60, y=560)
        form.textfield(name="empty", value="", x=60, y=520)
        form.textfield(name="pin", value="1234", fieldFlags="password", x=60, y=480)
        form.checkbox(name="newsletter", checked=True, x=60, y=440)
        form.checkbox(name="terms", checked=False, x=60, y=400)
        form.radio(name="size", value="small", selected=False, x=60, y=360)
        form.radio(name="size", value="large", selected=True, x=90, y=360)
        form.choice(name="colour", value="red", options=["red", "blue"], x=60, y=320)

    def second(canvas: Canvas) -> None:
        lines(canvas, ["Second."])
        canvas.acroForm.textfield(name="note", value="Call first.", x=60, y=600)

    assert read(draw, second).text == (
        "Application\n\nName: Zoë Müller\nStreet and number: Am Kai 4\nnewsletter: [x]\nterms: [ ]\n"
        "size: large\ncolour: red\n\n\f\n\nSecond.\n\nnote: Call first."
    )


def test_a_file_of_nothing_but_its_name_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ReadError, match="not a sound PDF"):
        sandbox.read("pdf.reader", b"%PDF-1.7\n%%EOF")
