"""Documents of every format, made from known parts: the expected result of reading them."""

import io
import random
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from itertools import batched, zip_longest
from typing import Any, Final
from xml.sax.saxutils import escape

import docx
import openpyxl
import pptx
import pypdfium2
from PIL import Image
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.lib.utils import simpleSplit
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    FrameBreak,
    PageBreak,
    PageTemplate,
    Paragraph,
    SimpleDocTemplate,
    Table,
    TableStyle,
)

_WORDS: Final = (
    *("valve", "pressure", "spring", "inspector", "boiler", "gasket", "record", "interval", "turbine"),
    *("manual", "bearing", "sensor", "cable", "filter", "quarter", "region", "report", "order"),
    *("customer", "invoice", "supplier", "warehouse", "shipment", "contract", "engineer"),
    *("opens", "closes", "measures", "exceeds", "replaces", "describes", "contains", "follows"),
    *("requires", "protects", "the", "a", "its", "every", "main", "upper", "lower", "annual"),
    *("local", "sealed", "heavy", "narrow", "steady", "before", "after", "within", "above", "below"),
    *("and", "while"),
)

type Grid = list[list[str]]


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str


type Part = Heading | str | Grid
"""A heading, a paragraph or a table whose first row names its columns."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file and its contents, page by page; formats without pages have one."""

    name: str
    format: str
    uri: str
    content: bytes
    pages: Sequence[Sequence[Part]]
    has_pages: bool = False
    is_ruled: bool | None = None
    """Whether lines are drawn around the cells of its tables; None if tables have marks."""


def docx_of(parts: Sequence[Part]) -> bytes:
    return _docx(parts)[1]


def html_of(parts: Sequence[Part]) -> bytes:
    return _html(parts)[1]


def pdf_of(pages: Sequence[Sequence[Part]]) -> bytes:
    """Return pages as PDF, with lines around the cells of tables."""
    return _pdf(pages, "ruled")


def documents(seed: int, *, with_scans: bool) -> Iterator[Document]:
    """Yield the documents of the benchmark; the same for the same seed."""
    maker = _Maker(random.Random(seed))  # noqa: S311
    yield maker.pdf("prose", tables="")
    yield maker.pdf("ruled tables", tables="ruled")
    yield maker.pdf("unruled tables", tables="unruled")
    yield maker.pdf("ruled across only", tables="across")
    yield maker.pdf("cells of several lines", tables="wrapped")
    yield maker.pdf("justified and hyphenated", tables="", style="justified")
    yield maker.columns()
    yield maker.drawn_columns(2)
    yield maker.drawn_columns(3)
    for angle in (0, 90, 180, 2) if with_scans else ():
        yield maker.scan(angle)
    for write in (_docx, _html, _odt, _epub, _mail, _rtf):
        yield maker.marked(write)
    yield maker.slides()
    yield maker.workbook()
    yield maker.csv()


def large_pdf(seed: int, pages: int) -> Document:
    """Return a PDF of text only, to measure speed."""
    return _Maker(random.Random(seed)).pdf("large", tables="", pages=pages)  # noqa: S311


class _Maker:
    """Maker of parts and of files of them; only the texts are random."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._number = 0

    def sentence(self, least: int = 8, most: int = 18) -> str:
        words = [self._chance.choice(_WORDS) for _ in range(self._chance.randint(least, most))]
        self._number += 1
        # A unique word tells where a sentence went.
        words.insert(len(words) // 2, f"n{self._number}")
        return " ".join(words).capitalize() + "."

    def paragraph(self) -> str:
        return " ".join(self.sentence() for _ in range(self._chance.randint(3, 6)))

    def heading(self, level: int) -> Heading:
        self._number += 1
        words = " ".join(self._chance.choice(_WORDS) for _ in range(3)).capitalize()
        return Heading(level, f"{words} n{self._number}")

    def grid(self, columns: int = 5, rows: int = 5) -> Grid:
        """Return a grid with an empty cell in most rows."""
        head = ["Region", *(f"Q{number}" for number in range(1, columns))]
        grid = [head]
        for _ in range(rows):
            self._number += 1
            cells = [f"{self._chance.uniform(0, 999):.1f}" for _ in range(columns - 1)]
            if self._chance.random() < 0.7:
                cells[self._chance.randrange(1, columns - 1)] = ""
            grid.append([f"{self._chance.choice(_WORDS)} n{self._number}", *cells])
        return grid

    def page(self, *, table: bool) -> list[Part]:
        parts: list[Part] = [self.heading(1), self.paragraph(), self.heading(2), self.paragraph()]
        if table:
            parts += [self.grid(), self.paragraph()]
        return [*parts, self.paragraph()]

    def pdf(self, name: str, *, tables: str, pages: int = 6, style: str = "BodyText") -> Document:
        truth = [self.page(table=bool(tables)) for _ in range(pages)]
        if tables == "wrapped":
            for grid in (part for page in truth for part in page if isinstance(part, list)):
                for row in grid[1:]:
                    row[2] = self.sentence(8, 10)
        return Document(
            f"pdf: {name}",
            "pdf",
            "a.pdf",
            _pdf(truth, tables, style),
            truth,
            has_pages=True,
            is_ruled=tables in {"ruled", "wrapped"} if tables else None,
        )

    def columns(self) -> Document:
        truth: list[list[Part]] = [
            [self.heading(1), *(part for _ in range(3) for part in (self.heading(2), self.paragraph()))]
            for _ in range(4)
        ]
        return Document("pdf: two columns", "pdf", "a.pdf", _two_columns(truth), truth, has_pages=True)

    def drawn_columns(self, count: int) -> Document:
        """Return a document whose lines are drawn across all columns at once, as some programs do."""
        truth: list[list[Part]] = [[self.paragraph() for _ in range(count * 2)] for _ in range(4)]
        content = _drawn_columns(truth, count)
        return Document(f"pdf: {count} columns by line", "pdf", "a.pdf", content, truth, has_pages=True)

    def scan(self, angle: int) -> Document:
        truth: list[list[Part]] = [[self.paragraph() for _ in range(5)]]
        content = _scanned(truth, angle)
        return Document(f"pdf: scan at {angle}°", "scan", "a.pdf", content, truth, has_pages=True)

    def marked(self, write: Callable[[Sequence[Part]], tuple[str, bytes]]) -> Document:
        """Return a document of a format that has marks for headings and tables."""
        parts = [part for _ in range(3) for part in self.page(table=write is not _rtf)]
        if write in {_mail, _rtf}:
            parts = [part for part in parts if isinstance(part, str)]
        uri, content = write(parts)
        suffix = uri.rpartition(".")[2]
        return Document(suffix, suffix, uri, content, [parts])

    def slides(self) -> Document:
        pages: list[list[Part]] = [[self.heading(2), self.sentence(), self.grid(4, 3)] for _ in range(5)]
        return Document("pptx", "pptx", "a.pptx", _pptx(pages), pages, has_pages=True)

    def workbook(self) -> Document:
        parts: list[Part] = [part for _ in range(3) for part in (self.heading(2), self.grid(6, 40))]
        return Document("xlsx", "xlsx", "a.xlsx", _xlsx(parts), [parts])

    def csv(self) -> Document:
        grid = self.grid(6, 100)
        content = "".join(",".join(row) + "\n" for row in grid).encode()
        return Document("csv", "csv", "a.csv", content, [[grid]])


# --- PDF ---

# Positions at which a long word may be divided.
_SOFT: Final = re.compile(r"([a-z]{4})([a-z]{3})")
_LINES: Final[Mapping[str, Sequence[Any]]] = {
    "ruled": [("GRID", (0, 0), (-1, -1), 0.5, colors.black)],
    "wrapped": [("GRID", (0, 0), (-1, -1), 0.5, colors.black)],
    "across": [
        ("LINEABOVE", (0, 0), (-1, 1), 0.8, colors.black),
        ("LINEBELOW", (0, -1), (-1, -1), 0.8, colors.black),
    ],
}


def _flowables(parts: Sequence[Part], tables: str, style: str = "BodyText") -> Iterator[Flowable]:
    styles = getSampleStyleSheet()
    justified = ParagraphStyle("justified", styles["BodyText"], alignment=TA_JUSTIFY, rightIndent=150)
    justified.embeddedHyphenation = 1
    styles.add(justified)
    for part in parts:
        match part:
            case Heading():
                yield Paragraph(part.text, styles[f"Heading{part.level}"])
            case str():
                yield Paragraph(_SOFT.sub("\\1\xad\\2", part) if style != "BodyText" else part, styles[style])
            case _:
                cells: Any = part
                if tables == "wrapped":
                    cells = [[Paragraph(cell, styles["BodyText"]) for cell in row] for row in part]
                lines = TableStyle(_LINES.get(tables, ()))
                widths = [60, 60, 160, 60, 60] if tables == "wrapped" else None
                yield Table(cells, style=lines, colWidths=widths, spaceBefore=8, spaceAfter=8)


def _pdf(pages: Sequence[Sequence[Part]], tables: str, style: str = "BodyText") -> bytes:
    def around(canvas: Canvas, document: Any) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(72, 810, "Handbook of the works")
        canvas.drawString(280, 30, f"Page {document.page}")

    out = io.BytesIO()
    flowables = [one for page in pages for one in (*_flowables(page, tables, style), PageBreak())]
    SimpleDocTemplate(out, pagesize=A4).build(flowables, onFirstPage=around, onLaterPages=around)
    return out.getvalue()


def _drawn_columns(pages: Sequence[Sequence[Part]], count: int) -> bytes:
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4)
    width = (A4[0] - 100) / count - 15
    for page in pages:
        canvas.setFont("Times-Roman", 9)
        texts = [part for part in page if isinstance(part, str)]
        columns = [
            [line for text in pair for line in (*simpleSplit(text, "Times-Roman", 9, width), "")]
            for pair in batched(texts, 2)
        ]
        for number, lines in enumerate(zip_longest(*columns, fillvalue="")):
            for column, line in enumerate(lines):
                canvas.drawString(50 + column * (width + 15), 780 - 11 * number, line)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def _two_columns(pages: Sequence[Sequence[Part]]) -> bytes:
    out = io.BytesIO()
    width, height = A4
    half = (width - 110) / 2
    template = BaseDocTemplate(out, pagesize=A4)
    frames = [
        Frame(45, height - 110, width - 90, 70, id="across"),
        Frame(45, 45, half, height - 160, id="left"),
        Frame(65 + half, 45, half, height - 160, id="right"),
    ]
    template.addPageTemplates([PageTemplate(id="page", frames=frames)])
    flowables: list[Flowable] = []
    for page in pages:
        across, *columns = _flowables(page, "")
        flowables += [across, FrameBreak()]
        middle = len(columns) // 2 // 2 * 2 + 2
        flowables += [*columns[:middle], FrameBreak(), *columns[middle:], PageBreak()]
    template.build(flowables)
    return out.getvalue()


def _scanned(pages: Sequence[Sequence[Part]], angle: int) -> bytes:
    """Return the pages as images of 200 dots an inch, rotated."""
    pictures = []
    with pypdfium2.PdfDocument(_pdf(pages, "")) as printed:
        # The last page is the blank one behind the last break.
        for number in range(len(pages)):
            picture = printed[number].render(scale=200 / 72).to_pil().convert("L")
            # Without headers and footers, which a scan does not tell from the rest.
            picture = picture.crop((0, 120, picture.width, picture.height - 120))
            turned = picture.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
            pictures.append(turned)
    out = io.BytesIO()
    pictures[0].save(out, "PDF", save_all=True, append_images=pictures[1:], resolution=200)
    return out.getvalue()


# --- formats with marks ---


def _docx(parts: Sequence[Part]) -> tuple[str, bytes]:
    document = docx.Document()
    for part in parts:
        match part:
            case Heading():
                document.add_heading(part.text, part.level)
            case str():
                document.add_paragraph(part)
            case _:
                table = document.add_table(len(part), len(part[0]))
                for row, cells in zip(table.rows, part, strict=True):
                    for cell, text in zip(row.cells, cells, strict=True):
                        cell.text = text
    return "a.docx", _saved(document)


def _saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _markup(parts: Sequence[Part]) -> str:
    written = []
    for part in parts:
        match part:
            case Heading():
                written.append(f"<h{part.level}>{escape(part.text)}</h{part.level}>")
            case str():
                written.append(f"<p>{escape(part)}</p>")
            case _:
                rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in part)
                written.append("<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>")
    return "".join(written)


def _html(parts: Sequence[Part]) -> tuple[str, bytes]:
    around = "<nav><a href='/'>Home</a><a href='/shop'>Shop</a></nav>"
    page = f"<html><head><title>A page</title></head><body>{around}<main>{_markup(parts)}</main>"
    return "a.html", f"{page}<footer>Imprint</footer></body></html>".encode()


def _zipped(parts: Mapping[str, str], mime_type: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", mime_type, zipfile.ZIP_STORED)
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def _epub(parts: Sequence[Part]) -> tuple[str, bytes]:
    container = '<rootfiles><rootfile full-path="book.opf"/></rootfiles>'
    package = '<manifest><item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/></spine>'
    names = "urn:oasis:names:tc:opendocument:xmlns:container"
    return "a.epub", _zipped(
        {
            "META-INF/container.xml": f'<container xmlns="{names}">{container}</container>',
            "book.opf": f'<package xmlns="http://www.idpf.org/2007/opf">{package}</package>',
            "a.xhtml": f"<html><body>{_markup(parts)}</body></html>",
        },
        "application/epub+zip",
    )


def _odt(parts: Sequence[Part]) -> tuple[str, bytes]:
    written = []
    for part in parts:
        match part:
            case Heading():
                written.append(f'<text:h text:outline-level="{part.level}">{escape(part.text)}</text:h>')
            case str():
                written.append(f"<text:p>{escape(part)}</text:p>")
            case _:
                cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>".format
                cells = ("".join(cell(escape(text)) for text in row) for row in part)
                rows = "".join(f"<table:table-row>{row}</table:table-row>" for row in cells)
                written.append(f"<table:table>{rows}</table:table>")
    address = "urn:oasis:names:tc:opendocument:xmlns:"
    names = " ".join(f'xmlns:{name}="{address}{name}:1.0"' for name in ("office", "text", "table"))
    body = f"<office:body><office:text>{''.join(written)}</office:text></office:body>"
    content = f"<office:document-content {names}>{body}</office:document-content>"
    parts_of = {"META-INF/manifest.xml": "<m/>", "content.xml": content}
    return "a.odt", _zipped(parts_of, "application/vnd.oasis.opendocument.text")


def _mail(parts: Sequence[Part]) -> tuple[str, bytes]:
    message = EmailMessage()
    message["From"], message["Subject"] = "a@example.org", "Report"
    message.set_content("\n\n".join(part for part in parts if isinstance(part, str)), cte="base64")
    return "a.eml", message.as_bytes()


def _rtf(parts: Sequence[Part]) -> tuple[str, bytes]:
    paragraphs = (rf"{part}\par " for part in parts if isinstance(part, str))
    return "a.rtf", (r"{\rtf1\ansi " + "".join(paragraphs) + "}").encode()


def _pptx(pages: Sequence[Sequence[Part]]) -> bytes:
    deck = pptx.Presentation()
    for heading, text, grid in pages:
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        assert isinstance(heading, Heading), "slides have one"
        assert isinstance(text, str), "and a text"
        assert isinstance(grid, list), "and a table"
        title = slide.shapes.title
        assert title is not None, "the layout has one"
        title.text_frame.text = heading.text
        slide.shapes.add_textbox(Inches(1), Inches(2), Inches(8), Inches(1)).text_frame.text = text
        table = slide.shapes.add_table(
            len(grid), len(grid[0]), Inches(1), Inches(4), Inches(8), Inches(2)
        ).table
        for cell, value in zip(table.iter_cells(), (cell for row in grid for cell in row), strict=True):
            cell.text_frame.text = value
    return _saved(deck)


def _xlsx(parts: Sequence[Part]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for heading, grid in zip(parts[::2], parts[1::2], strict=True):
        assert isinstance(heading, Heading), "the sheet's name"
        assert isinstance(grid, list), "and its cells"
        sheet = book.create_sheet(heading.text[:31])
        for row in grid:
            sheet.append([float(cell) if cell.replace(".", "").isdigit() else cell or None for cell in row])
            for cell in sheet[sheet.max_row]:
                cell.number_format = "0.0"
    return _saved(book)
