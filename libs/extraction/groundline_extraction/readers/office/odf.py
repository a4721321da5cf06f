"""OpenDocument: texts, sheets and slides. Cells hold their displayed text, with number formats."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from zipfile import ZipFile

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError, parsing
from groundline_extraction.readers.data.xml import parsed
from groundline_extraction.readers.grids import GridRow, spread
from groundline_extraction.readers.images.pictures import add_picture
from groundline_extraction.readers.office.sheets import MAX_CELLS, Sheet, add_sheet
from groundline_extraction.readers.zips import open_zip

type Element = Any

MAX_REPEATED: Final = 1000
"""Maximum repetitions of a cell or row; at the end of a sheet they are millions."""

MAX_ROW: Final = 1 << 24
"""Maximum number of a row that is told; sheets have 1,048,576."""

_NAMESPACE: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_NAMES: Final = {
    **{name: f"{_NAMESPACE}{name}:1.0" for name in ("office", "text", "table", "style", "presentation")},
    "draw": f"{_NAMESPACE}drawing:1.0",
    "chart": f"{_NAMESPACE}chart:1.0",
    "meta": f"{_NAMESPACE}meta:1.0",
    "dc": "http://purl.org/dc/elements/1.1/",
    "xlink": "http://www.w3.org/1999/xlink",
}
_NUMBERED: Final = "//text:list-style/text:list-level-style-number"
_AROUND: Final = "//style:master-page/*[self::style:header or self::style:footer]"
_ONLY_NUMBER: Final = re.compile(r"[\W\d]*")
_SHORT: Final = {address: name for name, address in _NAMES.items()}


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read a text, workbook or presentation. Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT or
    DOCUMENT_TOO_LARGE."""
    with open_zip(io.BytesIO(data), limits) as archive, parsing("sound OpenDocument"):
        return _read(archive, hints, limits)


def _read(archive: ZipFile, hints: Hints, limits: ReaderLimits) -> Read:
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise ReadError("ENCRYPTED_DOCUMENT", "the document needs a password")
    content = parsed(archive.read("content.xml"))
    meta = parsed(archive.read("meta.xml")) if "meta.xml" in archive.namelist() else None
    title = "" if meta is None else "".join(meta.xpath("//dc:title/text()", namespaces=_NAMES))
    builder = MarkdownBuilder(limits, with_pictures=hints.with_pictures)
    [body] = content.find(_full("office:body"))
    styles = parsed(archive.read("styles.xml")) if "styles.xml" in archive.namelist() else None
    writer = _Writer(builder, archive, [one for one in (styles, content) if one is not None], limits)
    writer.body(body)
    if styles is not None and _name(body) == "office:text":
        writer.around(styles)
    return builder.read(title=title)


class _Writer:
    def __init__(
        self, builder: MarkdownBuilder, archive: ZipFile, parts: Sequence[Element], limits: ReaderLimits
    ) -> None:
        self._builder = builder
        self._archive = archive
        self._limits = limits
        self._notes: list[str] = []
        self._numbered = {
            (level.getparent().get(_full("style:name")), _number(level, "text:level")): level
            for part in parts
            for level in part.xpath(_NUMBERED, namespaces=_NAMES)
        }
        self._reached: dict[tuple[str, int], int] = {}

    def body(self, body: Element) -> None:
        match _name(body):
            case "office:spreadsheet":
                for sheet in body.iterchildren(_full("table:table")):
                    name = sheet.get(_full("table:name")) or ""
                    self._sheet(name, sheet)
            case "office:presentation":
                pages = list(body.iterchildren(_full("draw:page")))
                if len(pages) > self._limits.max_pages:
                    raise ReadError("TOO_MANY_PAGES", f"more than {self._limits.max_pages} slides")
                for number, page in enumerate(pages, 1):
                    self._page(page, number)
            case _:
                self._blocks(body)
        for note in self._notes:
            self._builder.paragraph(note)

    def _sheet(self, name: str, table: Element) -> None:
        grid, places = self._placed_rows(table)
        copies = {(at, column): "" for at, row in enumerate(grid) for column in row.copies}
        rows = [list(row.cells) for row in grid]
        sheet = Sheet(name, rows, numbers=copies, has_references=bool(places), places=places)
        add_sheet(self._builder, sheet, self._limits)

    def around(self, styles: Element) -> None:
        """Add the headers and footers of pages, except page numbers, each once."""
        found = styles.xpath(_AROUND, namespaces=_NAMES)
        texts = ("\n".join(filter(None, map(self._inline, one.iter(_full("text:p"))))) for one in found)
        for text in dict.fromkeys(texts):
            if not _ONLY_NUMBER.fullmatch(text):
                self._builder.paragraph(text)

    def _page(self, page: Element, number: int) -> None:
        self._builder.page(number)
        frames = list(page)
        titles = [frame for frame in frames if frame.get(_full("presentation:class")) == "title"]
        paragraphs = (paragraph for title in titles for paragraph in title.iter(_full("text:p")))
        shown = " ".join(map(self._inline, paragraphs))
        self._builder.heading(2, shown or page.get(_full("draw:name")) or f"Slide {number}")
        for frame in frames:
            if _name(frame) == "presentation:notes":
                if any(map(self._inline, frame.iter(_full("text:p")))):
                    self._builder.heading(3, "Notes")
                    self._blocks(frame)
            elif frame not in titles:
                self._blocks([frame])

    def _blocks(self, parent: Iterable[Element]) -> None:
        for element in parent:
            match _name(element):
                case "text:h":
                    level = int(element.get(_full("text:outline-level")) or 1)
                    self._builder.heading(level, self._inline(element))
                case "text:p":
                    self._builder.paragraph(self._inline(element))
                    for frame in element.iter(_full("draw:frame")):
                        self._frame(frame)
                case "text:list":
                    self._builder.add("\n".join(self._items(element, 0)))
                case "table:table":
                    self._builder.table(self._rows(element))
                case "draw:frame":
                    self._frame(element)
                case "text:tracked-changes" | "office:forms" | "text:sequence-decls":
                    pass
                case _:
                    self._blocks(element)

    def _frame(self, frame: Element) -> None:
        for inner in frame:
            match _name(inner):
                case "draw:text-box":
                    self._blocks(inner)
                case "draw:object":
                    if self._object(inner):
                        return  # a picture of it follows
                case "table:table":
                    self._builder.table(self._rows(inner))
                case "draw:image":
                    path = inner.get(_full("xlink:href")) or ""
                    if path in self._archive.namelist():
                        add_picture(self._builder, self._archive.read(path), self._limits)

    def _object(self, element: Element) -> bool:
        """Add the tables of a chart or of an embedded sheet; tell whether it has any."""
        path = f"{(element.get(_full('xlink:href')) or '').removeprefix('./')}/content.xml"
        if path not in self._archive.namelist():
            self._blocks(element)
            return False
        content = parsed(self._archive.read(path))
        for title in content.iter(_full("chart:title")):
            self._builder.paragraph(" ".join(map(self._inline, title.iter(_full("text:p")))))
        tables = list(content.iter(_full("table:table")))
        for table in tables:
            self._builder.table(self._rows(table))
        return bool(tables)

    def _items(self, element: Element, depth: int, style: str = "") -> Iterator[str]:
        style = element.get(_full("text:style-name")) or style
        level = self._numbered.get((style, depth + 1))
        number = 0 if level is None else _number(level, "text:start-value") - 1
        continues = element.get(_full("text:continue-list")) or element.get(_full("text:continue-numbering"))
        if continues not in (None, "", "false"):
            number = self._reached.get((style, depth), number)
        for item in element:
            number = _number(item, "text:start-value", number + 1)
            self._reached[style, depth] = number
            mark = "- " if level is None else f"{number}. "
            for inner in item:
                if _name(inner) == "text:list":
                    yield from self._items(inner, depth + 1, style)
                elif text := self._inline(inner):
                    yield "  " * min(depth, 20) + mark + text
                    mark = " " * len(mark)

    def _rows(self, table: Element) -> list[GridRow]:
        return self._placed_rows(table)[0]

    def _placed_rows(self, table: Element) -> tuple[list[GridRow], list[int]]:
        """Return the rows, of empty ones not all, and the place of each in its table, from 0; no places if
        more stands before a cell than is counted."""
        rows: list[list[tuple[str, int, int]]] = []
        places: list[int] = []
        place = 0
        is_counted = True
        for row in table.iter(_full("table:table-row")):
            cells: list[tuple[str, int, int]] = []
            counts = True
            for cell in row:
                if _name(cell) == "table:covered-table-cell":
                    continue
                text = " ".join(self._inline(paragraph) for paragraph in cell.iter(_full("text:p")))
                times = _number(cell, "table:number-columns-repeated")
                columns = _number(cell, "table:number-columns-spanned")
                height = _number(cell, "table:number-rows-spanned")
                is_counted = is_counted and (counts or not text)
                counts = counts and (bool(text) or times <= MAX_REPEATED)
                cells += [(text, columns, height)] * (times if text else min(times, MAX_REPEATED))
            while cells and not cells[-1][0]:
                cells.pop()
            times = min(_number(row, "table:number-rows-repeated"), MAX_REPEATED if cells else 1)
            rows += [cells] * times
            places += range(place, place + times)
            place += _number(row, "table:number-rows-repeated", most=MAX_ROW)
            if sum(map(len, rows[-1:])) and len(rows) * len(rows[-1]) > MAX_CELLS:
                raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_CELLS} cells")
        while rows and not rows[-1]:
            rows.pop()
        places = places[: len(rows)]
        is_counted = is_counted and all(at < MAX_ROW for at in places[-1:])
        return list(spread(rows, MAX_CELLS)), places if is_counted else []

    def _inline(self, element: Element) -> str:
        return " ".join("".join(self._pieces(element)).split(" ")).strip()

    def _pieces(self, element: Element) -> Iterator[str]:
        yield " ".join((element.text or "").split("\n"))
        for inner in element:
            match _name(inner):
                case "text:s":
                    yield " " * min(int(inner.get(_full("text:c")) or 1), 100)
                case "text:tab":
                    yield "\t"
                case "text:line-break":
                    yield "\n"
                case "text:note":
                    mark = "".join(inner.find(_full("text:note-citation")).itertext())
                    text = " ".join("".join(inner.find(_full("text:note-body")).itertext()).split())
                    self._notes.append(f"[{mark}] {text}")
                    yield f"[{mark}]"
                case "office:annotation":
                    text = " ".join(self._inline(paragraph) for paragraph in inner.iter(_full("text:p")))
                    yield f" [Comment: {text}]"
                case "draw:frame":
                    pass  # a block of its own
                case "text:page-number" | "text:page-count":
                    pass
                case _:
                    yield from self._pieces(inner)
            yield " ".join((inner.tail or "").split("\n"))


def _full(name: str) -> str:
    prefix, _, local = name.partition(":")
    return f"{{{_NAMES[prefix]}}}{local}"


def _name(element: Element) -> str:
    if not isinstance(element.tag, str):
        return ""
    address, _, local = element.tag[1:].partition("}")
    return f"{_SHORT.get(address, '')}:{local}"


def _number(element: Element, name: str, default: int = 1, most: int = MAX_REPEATED * 10) -> int:
    value = element.get(_full(name)) or ""
    return min(max(int(value), 1), most) if value.isdecimal() else default
