"""PDF by PDFium: words and lines by their coordinates, which `layout` interprets; scans by OCR."""

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pypdfium2
import pypdfium2.raw as pdfium

from groundline_extraction.readers.building import MarkdownBuilder, escaped, table_text
from groundline_extraction.readers.common import (
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    clean,
    one_line,
)
from groundline_extraction.readers.images import image
from groundline_extraction.readers.pdf.forms import fields_of, open_forms
from groundline_extraction.readers.pdf.heads import with_one_head
from groundline_extraction.readers.pdf.layout import Block, Box, Page, Rule, Turn, Word, blocks_of, style_of
from groundline_extraction.readers.pdf.pictures import add_pictures

SAMPLED_PAGES: Final = 60
"""Maximum pages from which a document's style is derived."""
MAX_CHARACTERS: Final = 200_000
"""Maximum characters of one page."""
MAX_OUTLINE: Final = 20_000
SCAN_DPI: Final = 300

# Titles that programs write into documents without one.
_NO_TITLE: Final = re.compile(
    r"\(?(?:anonymous|untitled|unknown|unspecified|none|null|title|document|dokument|presentation|slide|page)\)?"
    r"[ _-]*\d*|[\w-]+\.tmp|.*\.(?:indd|qxd|dvi|ps)",
    re.IGNORECASE,
)
_FILE_TITLE: Final = re.compile(
    r"^microsoft \w+ - |\.(?:docx?|xlsx?|pptx?|pdf|odt|tex|rtf|txt)$", re.IGNORECASE
)
_BOLD: Final = re.compile(r"bold|black|heavy|demi", re.IGNORECASE)
_MONO: Final = re.compile(r"mono|courier|consol|typewriter|code|cmtt|menlo", re.IGNORECASE)
_FIXED_PITCH: Final = 1
_SUBSTITUTED: Final = 1 << 19
"""pdfium's flag of a font that the file does not hold; its weight is then guessed: Times-Roman is 695."""


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read pages in reading order as Markdown: headings by outline and font, tables, code, paragraphs.

    Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT, TOO_MANY_PAGES or DOCUMENT_TOO_LARGE.
    """
    with opened(data) as document:
        open_forms(document)
        return _read(document, hints, limits)


@contextmanager
def opened(data: bytes) -> Iterator[pypdfium2.PdfDocument]:
    """Open a file for the block. Raises ReadError with ENCRYPTED_DOCUMENT or CORRUPT_DOCUMENT, also for what
    PDFium fails with in the block."""
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        # Many files are encrypted only to forbid changes; the empty password opens them.
        if error.err_code == pdfium.FPDF_ERR_PASSWORD:
            raise ReadError("ENCRYPTED_DOCUMENT", "the PDF needs a password") from None
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound PDF: {one_line(str(error), 200)}") from None
    try:
        yield document
    except pypdfium2.PdfiumError as error:
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound PDF: {one_line(str(error), 200)}") from None
    finally:
        document.close()


def _read(document: pypdfium2.PdfDocument, hints: Hints, limits: ReaderLimits) -> Read:
    count = len(document)
    if count > limits.max_pages:
        raise ReadError("TOO_MANY_PAGES", f"{count} pages; at most {limits.max_pages} are taken")
    step = max(1, count // SAMPLED_PAGES)
    sample = {number: _page(document, number) for number in list(range(0, count, step))[:SAMPLED_PAGES]}
    style = style_of(list(sample.values()))
    outline = _outline(document)
    builder = MarkdownBuilder(limits, with_pictures=hints.with_pictures)
    confidences: list[float] = []
    fields_seen: set[str] = set()
    for number in range(count):
        builder.page(number + 1)
        page = sample.pop(number) if number in sample else _page(document, number)
        start = builder.start
        is_scan = False
        entries = {_key(title): (level, title) for level, title in outline.get(number, ())}
        if page.words:
            for block in blocks_of(page, style):
                entry = None if block.rows or block.code else entries.pop(_key(block.text[:600]), None)
                _add(builder, block, entry[0] if entry else block.level, page)
        elif limits.ocr_data and (scanned := _scanned(document, number, limits)):
            confidences.append(scanned.confidence)
            at = builder.start
            is_scan = bool(scanned.text)
            builder.paragraph(scanned.text)
            for begin, edges in scanned.lines:
                builder.line(at + len(escaped(scanned.text[:begin])), *edges)
        if fields := list(fields_of(document, number, fields_seen)):
            at = builder.start
            builder.paragraph("\n".join(text for text, _ in fields))
            for text, box in fields:
                _line(builder, at, page.turn(*box), page)
                at += len(escaped(text)) + 1
        if builder.takes_pictures and not is_scan:
            add_pictures(builder, document, number, page, limits)
        for level, title in entries.values():
            builder.outline(level, title, start)
    metadata: dict[str, str | float] = {}
    if confidences:
        metadata["ocr_confidence"] = round(sum(confidences) / len(confidences), 2)
    return builder.read(title=_title_of(document), metadata=metadata)


def _add(builder: MarkdownBuilder, block: Block, level: int, page: Page) -> None:
    """Append a block, and where its lines or cells are."""
    if block.rows:
        titles, rows = with_one_head(block.rows)
        for title in titles:
            _add(builder, Block(title.text, lines=[(0, title.box)] if title.box else ()), 0, page)
        start = builder.start
        table, at = table_text([[cell.text for cell in row] for row in rows]), 0
        builder.add(table)
        for cell in (cell for row in rows for cell in row if table):
            if cell.box and (text := table_text([[cell.text]]).partition("\n")[0][2:-2]):
                at = table.index(text, at)
                _line(builder, start + at, cell.box, page)
                at += len(text)
        return
    start, text = builder.start, block.text
    if block.code:
        builder.code(text)
        start += len("```\n")
    elif level:
        builder.heading(level, text)
        start += level + 1
    else:
        builder.paragraph(text)
    is_escaped = not block.code and not level and escaped(text) != text
    for begin, box in block.lines:
        _line(builder, start + (len(escaped(text[:begin])) if is_escaped else begin), box, page)


def _line(builder: MarkdownBuilder, start: int, box: Box, page: Page) -> None:
    left, bottom, right, top = box
    builder.line(
        start, left / page.width, 1 - top / page.height, right / page.width, 1 - bottom / page.height
    )


def _key(title: str) -> str:
    return re.sub(r"[\W_]+", "", title).casefold()


def _title_of(document: pypdfium2.PdfDocument) -> str:
    title = one_line(document.get_metadata_value("Title"))
    title = _FILE_TITLE.sub("", _FILE_TITLE.sub("", title)).strip()
    return "" if _NO_TITLE.fullmatch(title) else title


def _outline(document: pypdfium2.PdfDocument) -> Mapping[int, Sequence[tuple[int, str]]]:
    found: dict[int, list[tuple[int, str]]] = {}
    try:
        for number, entry in enumerate(document.get_toc(max_depth=6)):
            if number == MAX_OUTLINE:
                break
            destination = entry.get_dest()
            page = destination.get_index() if destination else None
            title = one_line(entry.get_title())
            if page is not None and title:
                found.setdefault(page, []).append((entry.level + 1, title))
    except (pypdfium2.PdfiumError, ValueError):  # the pages can be read; a broken outline does not count
        pass
    return found


# --- pages ---


def _page(document: pypdfium2.PdfDocument, number: int) -> Page:
    try:
        page = document[number]
    except pypdfium2.PdfiumError:
        return Page(1, 1, ())  # a broken page; others may be sound
    width, height = page.get_size()
    turn = _turned(page.get_rotation(), page.get_bbox(), width, height)
    text = page.get_textpage()
    try:
        # Broken files have letters far off the page, and places that are no numbers.
        words = [
            word
            for word in _words(text, turn)
            if -width <= word.x0 <= word.x1 <= 2 * width and -height <= word.y0 <= word.y1 <= 2 * height
        ]
        rules = [Rule(*turn(*rule)) for rule in _rules(page)] if words else []
        return Page(width, height, words, rules, turn)
    finally:
        text.close()
        page.close()


def _turned(rotation: int, shown: Box, width: float, height: float) -> Turn:
    """Return the function from places on the paper to places on the page as it is shown, which may be a part
    of it, and turned."""
    left, bottom, _, _ = shown

    def turn(x0: float, y0: float, x1: float, y1: float) -> Box:
        x0, y0, x1, y1 = x0 - left, y0 - bottom, x1 - left, y1 - bottom
        match rotation:
            case 90:
                return y0, height - x1, y1, height - x0
            case 180:
                return width - x1, height - y1, width - x0, height - y0
            case 270:
                return width - y1, x0, width - y0, x1
            case _:
                return x0, y0, x1, y1

    return turn


def _words(text: pypdfium2.PdfTextPage, turn: Turn) -> Iterator[Word]:
    """Return runs of letters without a space between them, in the order of the file.

    Halves of surrogate pairs, as which PDFium gives some letters, are joined before places in the text count.
    """
    handle = text.raw
    count = min(pdfium.FPDFText_CountChars(handle), MAX_CHARACTERS)
    box = pdfium.FS_RECTF()
    pointer = ctypes.byref(box)
    box_of = pdfium.FPDFText_GetLooseCharBox
    styles: dict[int, tuple[bool, bool, bool]] = {}
    letters: list[str] = []
    x0 = y0 = x1 = y1 = 0.0
    style = (False, False, False)
    for index, code in enumerate(_codes(handle, count)):
        is_space = code in (32, 160, 9, 10, 13, 0)
        if not is_space:
            box_of(handle, index, pointer)
            left, bottom, right, top = turn(box.left, box.bottom, box.right, box.top)
        if letters and (
            is_space or left - x1 > 0.2 * (y1 - y0) or left < x0 or not bottom <= (y0 + y1) / 2 <= top
        ):
            if not style[2]:
                yield Word(clean("".join(letters)), x0, y0, x1, y1, style[0], style[1])
            letters.clear()
        if is_space:
            continue
        if not letters:
            x0, y0, x1, y1 = left, bottom, right, top
            style = _style(handle, index, styles)
        letters.append("-" if code in (2, 0xFFFE) else chr(code))
        x1 = max(x1, right)
    if letters and not style[2]:
        yield Word(clean("".join(letters)), x0, y0, x1, y1, style[0], style[1])


def _codes(handle: Any, count: int) -> Sequence[int]:
    """Return the letters of a page: all at once if each is one unit of UTF-16, else one by one."""
    buffer = (ctypes.c_ushort * (count + 1))()
    if pdfium.FPDFText_GetText(handle, 0, count, buffer) == count + 1:
        codes: list[int] = buffer[:count]
        if not any(0xD800 <= code < 0xE000 for code in codes):
            return codes
    return [pdfium.FPDFText_GetUnicode(handle, index) for index in range(count)]


def _style(handle: Any, index: int, known: dict[int, tuple[bool, bool, bool]]) -> tuple[bool, bool, bool]:
    """Return whether a letter is bold, of fixed width, and set at an angle, as watermarks are."""
    found = pdfium.FPDFText_GetTextObject(handle, index)
    key = ctypes.addressof(found.contents) if found else 0
    if key not in known:
        flags = ctypes.c_int()
        buffer = ctypes.create_string_buffer(128)
        pdfium.FPDFText_GetFontInfo(handle, index, buffer, 128, ctypes.byref(flags))
        name = buffer.value.decode("utf-8", "replace")
        weight = pdfium.FPDFText_GetFontWeight(handle, index)
        angle = pdfium.FPDFText_GetCharAngle(handle, index) % 1.5707963
        is_mono = bool(flags.value & _FIXED_PITCH) or _MONO.search(name) is not None
        known[key] = (
            (weight >= 600 and not flags.value & _SUBSTITUTED) or _BOLD.search(name) is not None,
            is_mono,
            0.05 < angle < 1.52,
        )
    return known[key]


def _rules(page: pypdfium2.PdfPage) -> Iterator[Box]:
    """Return level and upright lines, and thin boxes that stand for lines."""
    for number, shape in enumerate(page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_PATH], max_depth=1)):
        if number == 5000:
            return
        try:
            left, bottom, right, top = shape.get_bounds()
        except pypdfium2.PdfiumError:
            continue
        if right - left < 4 or top - bottom < 4:
            if max(right - left, top - bottom) >= 4:
                yield _thin(left, bottom, right, top)
        elif _is_drawn(shape):
            yield from _edges(shape)


def _thin(left: float, bottom: float, right: float, top: float) -> Box:
    if right - left >= top - bottom:
        bottom = top = (bottom + top) / 2
    else:
        left = right = (left + right) / 2
    return left, bottom, right, top


def _is_drawn(shape: pypdfium2.PdfObject) -> bool:
    """Return whether a path has an outline; one that is only filled is a background."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(shape.raw, ctypes.byref(fill), ctypes.byref(stroke))
    return bool(stroke.value)


def _edges(shape: pypdfium2.PdfObject) -> Iterator[Box]:
    matrix = shape.get_matrix()
    x, y = ctypes.c_float(), ctypes.c_float()
    first = before = None
    for index in range(min(pdfium.FPDFPath_CountSegments(shape.raw), 1000)):
        segment = pdfium.FPDFPath_GetPathSegment(shape.raw, index)
        pdfium.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
        point = matrix.on_point(x.value, y.value)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            first = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO and before is not None:
            yield from _straight(before, point)
        if pdfium.FPDFPathSegment_GetClose(segment) and first is not None:
            yield from _straight(point, first)
        before = point


def _straight(one: Any, other: Any) -> Iterator[Box]:
    (ax, ay), (bx, by) = one, other
    if (abs(ax - bx) < 1) != (abs(ay - by) < 1):
        yield _thin(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))


# --- scans ---


def _scanned(document: pypdfium2.PdfDocument, number: int, limits: ReaderLimits) -> image.Recognized | None:
    """Return the text on a page that holds pictures alone; None for a blank page."""
    page = document[number]
    try:
        kinds = [pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_PATH]
        if next(iter(page.get_objects(filter=kinds, max_depth=3)), None) is None:
            return None
        width, height = page.get_size()
        most = (limits.max_image_pixels / max(width * height, 1)) ** 0.5
        bitmap = page.render(scale=min(SCAN_DPI / 72, most * 0.99), grayscale=True)
        return image.recognized(bitmap.to_pil(), limits)
    finally:
        page.close()
