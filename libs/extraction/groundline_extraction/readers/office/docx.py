"""DOCX as Markdown: headings, numbered lists, tables, notes and comments.

python-docx would hold a tree of the whole document, and every picture. The body is parsed element by element
instead, and a picture is unpacked when it is come to.
"""

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from lxml import etree

from groundline_extraction.readers.building import MarkdownBuilder, TablePart, escaped
from groundline_extraction.readers.common import Give, Hints, Read, ReaderLimits, ReadError, parsing, whole
from groundline_extraction.readers.data.xml import parsed
from groundline_extraction.readers.grids import Cell, GridRow, spread
from groundline_extraction.readers.images.pictures import picture_text, record_picture
from groundline_extraction.readers.office.relations import relations_of
from groundline_extraction.readers.zips import open_zip

type Element = Any

MAX_CELLS: Final = 500_000
"""Maximum further places of one table that merged cells fill."""
ROWS_AT_ONCE: Final = 500
"""Maximum rows of a table written at once; a longer one is written in parts, with all of its columns."""

_NAMES: Final = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
    "r": "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    "dc": "http://purl.org/dc/elements/1.1/",
}
_HEADING: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)
_NOTES: Final = ("footnotes", "endnotes", "comments")
_ONLY_NUMBER: Final = re.compile(r"\W*(?:page|seite)?\W*\d*\W*(?:of|von|/)?\W*\d*\W*", re.IGNORECASE)
_CONTAINERS: Final = frozenset({"body", "sdt", "sdtContent", "ins", "customXml"})


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Return all of `read_pieces` at once."""
    return whole(read_pieces, data, hints, limits)


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Give the body in reading order, then notes, comments, headers and footers.

    Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT or DOCUMENT_TOO_LARGE.
    """
    with open_zip(file, limits) as archive, parsing("a sound DOCX"):
        for piece in _Writer(_Package(archive), limits, with_pictures=hints.with_pictures).pieces():
            give(piece)


class _Package:
    """Parts of a file, by their relations to its document."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        whole = relations_of(archive, "")
        self.document = next(path for kind, path in whole.values() if kind == "officeDocument")
        properties = (path for kind, path in whole.values() if kind == "core-properties")
        self.properties = self._parsed(next(properties, ""))
        self._related = relations_of(archive, self.document)

    def open_document(self) -> Any:
        return self._archive.open(self.document)

    def part(self, kind: str) -> Element | None:
        """Return the root of the one part of a kind; None if the document lacks it."""
        return self._parsed(next((path for one, path in self._related.values() if one == kind), ""))

    def related(self, identifier: str) -> Element | None:
        return self._parsed(self._related.get(identifier, ("", ""))[1])

    def picture(self, identifier: str) -> bytes:
        """Return the bytes of a picture; b"" if the file lacks it."""
        _, path = self._related.get(identifier, ("", ""))
        return self._archive.read(path) if path else b""

    def _parsed(self, path: str) -> Element | None:
        return parsed(self._archive.read(path)) if path else None


@dataclass(frozen=True, slots=True)
class _Style:
    """Properties of a paragraph's style that matter, with inherited ones; level 0 is not a heading."""

    level: int = 0
    is_bullet: bool = False
    numbering: str | None = None
    depth: int | None = None


class _Writer:
    def __init__(self, package: _Package, limits: ReaderLimits, *, with_pictures: bool) -> None:
        self._package = package
        self._limits = limits
        self._builder = MarkdownBuilder(limits, with_pictures=with_pictures)
        styles = package.part("styles")
        self._styles = _styles(() if styles is None else styles.iterchildren(_w("style")))
        self._numbering = _Numbering(package.part("numbering"))
        self._notes = {kind: _notes(package.part(kind)) for kind in _NOTES}
        self._used: dict[tuple[str, str], str] = {}
        self._around: dict[str, None] = {}
        self._is_in_list = False

    def pieces(self) -> Iterator[Read]:
        with self._package.open_document() as document:
            for _ in self._blocks(document):
                if self._builder.is_piece:
                    yield self._builder.read()
        for (kind, identifier), mark in self._used.items():
            if text := self._notes[kind].get(identifier):
                self._builder.paragraph(f"[{mark}] {text}")
        for text in self._around:
            self._builder.paragraph(text)
        yield self._builder.read(
            title=self._property("title"), metadata={"author": self._property("creator")}
        )

    def _property(self, name: str) -> str:
        properties = self._package.properties
        return "" if properties is None else (properties.findtext(f"dc:{name}", "", _NAMES) or "")

    def _blocks(self, document: Any) -> Iterator[None]:
        """Write each block of the body when it has ended, and free its elements."""
        table: _Table | None = None
        for event, element in etree.iterparse(
            document,
            events=("start", "end"),
            tag=[_w(name) for name in ("p", "tbl", "tr", "sectPr")],
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
        ):
            name = _name(element)
            if event == "start":
                if name == "tbl" and table is None and _is_in_body(element):
                    table = _Table(element)
                continue
            if name == "sectPr":
                self._section(element)
            elif table is not None and name == "tr" and element.getparent() is table.element:
                self._row(element, table)
                if len(table.rows) == ROWS_AT_ONCE:
                    self._builder.table(table.taken(), part=table.part)
                    table.part = "next"
            elif table is not None and element is table.element:
                self._is_in_list = False
                self._builder.table(table.taken(), part="whole" if table.part == "first" else "next")
                table = None
            elif table is None and name == "p" and _is_in_body(element):
                self._block(element)
            else:
                continue
            _give_up(element)
            yield

    def _block(self, paragraph: Element) -> None:
        """Write a paragraph, a heading or an item of a list, then what is anchored in it."""
        style = self._style(paragraph)
        level = _outline_level(paragraph.find(_w("pPr")), style.level)
        text = self._text(paragraph)
        number = None if level and not text else self._numbering.next(paragraph, style)
        is_item = not level and (number is not None or style.is_bullet)
        if is_item and text:
            item = f"{'  ' * _depth(paragraph, style)}{number or '-'} {escaped(text)}"
            self._builder.add(item, between="\n" if self._is_in_list else "\n\n")
        elif level and text:
            self._builder.heading(level, f"{number or ''} {text}".strip())
        else:
            self._builder.paragraph(text)
        self._is_in_list = is_item and bool(text)
        for box in paragraph.iter(_w("txbxContent")):
            if _is_outermost(box, paragraph):
                self._is_in_list = False
                self._box(box)
        for picture in self._pictures(paragraph):
            self._is_in_list = False
            self._builder.paragraph(picture)

    def _box(self, parent: Element) -> None:
        for element in parent:
            match _name(element):
                case "p":
                    self._block(element)
                case "tbl":
                    table = _Table(element)
                    for row in element.iterchildren(_w("tr")):
                        self._row(row, table)
                    self._builder.table(table.taken())
                case name if name in _CONTAINERS:
                    self._box(element)

    def _pictures(self, parent: Element) -> Iterator[str]:
        """Yield the text on the pictures that are not inside a box; a picture is recorded behind what was
        made of its text, and one in a table before the table."""
        for blip in parent.iter(f"{{{_NAMES['a']}}}blip"):
            identifier = blip.get(f"{{{_NAMES['r']}}}embed")
            if identifier and _is_outermost(blip, parent):
                data = self._package.picture(identifier)
                yield picture_text(data, self._limits)
                record_picture(self._builder, data, self._limits)

    def _style(self, paragraph: Element) -> _Style:
        properties = paragraph.find(_w("pPr"))
        return self._styles.get(_value(properties, "pStyle") or "", _NO_STYLE)

    def _section(self, section: Element) -> None:
        """Remember a section's headers and footers, except page numbers."""
        for reference in section:
            if _name(reference) not in {"headerReference", "footerReference"}:
                continue
            around = self._package.related(reference.get(f"{{{_NAMES['r']}}}id") or "")
            # Also those in tables and boxes, but not what older programs show in place of a box.
            paragraphs = () if around is None else around.iter(_w("p"))
            shown = (one for one in paragraphs if "Fallback" not in map(_name, one.iterancestors()))
            text = "\n".join(filter(None, map(self._text, shown)))
            if text and not _ONLY_NUMBER.fullmatch(text):
                self._around[text] = None

    def _text(self, paragraph: Element) -> str:
        return "".join(self._pieces(paragraph)).strip()

    def _pieces(self, parent: Element) -> Iterator[str]:
        for element in parent:
            match _name(element):
                case "t":
                    yield element.text or ""
                case "tab":
                    yield "\t"
                case "br" | "cr":
                    yield "\n"
                case "noBreakHyphen":
                    yield "-"
                case "footnoteReference" | "endnoteReference" | "commentReference":
                    kind = _name(element).replace("Reference", "s")
                    key = (kind, element.get(_w("id")) or "")
                    if key[1] in self._notes[kind]:
                        mark = self._used.setdefault(key, str(len(self._used) + 1))
                        yield f"[{mark}]"
                case "del" | "moveFrom" | "drawing" | "pict" | "AlternateContent" | "pPr" | "rPr" | "tbl":
                    pass
                case _:
                    yield from self._pieces(element)

    def _row(self, row: Element, table: "_Table") -> None:
        before = int(_value(row.find(_w("trPr")), "gridBefore") or 0)
        table.spread(before)
        cells: list[Cell] = [("", 1, 1)] * before
        repeated: set[int] = set()
        place = before
        for cell in row.iter(_w("tc")):
            if next(cell.iterancestors(_w("tbl"))) is not table.element:
                continue
            properties = cell.find(_w("tcPr"))
            columns = int(_value(properties, "gridSpan") or 1)
            table.spread(columns - 1)
            words = [*map(self._text, cell.iter(_w("p"))), *self._pictures(cell)]
            text = " ".join(filter(None, words))
            merge = None if properties is None else properties.find(_w("vMerge"))
            if merge is not None and merge.get(_w("val")) != "restart":
                text = table.above.get(place, "")
                repeated.update(range(place, place + columns))
            table.above[place] = text
            cells.append((text, columns, 1))
            place += columns
        mark = row.find("w:trPr/w:tblHeader", _NAMES)
        is_head = mark is not None and mark.get(_w("val")) not in {"false", "0", "off"}
        table.rows.append((cells, GridRow((), above=frozenset(repeated), is_head=is_head)))


@dataclass(slots=True)
class _Table:
    """A table that is being read, its rows with what goes on in them from above. `above`: the last text of
    each column that a cell begins in."""

    element: Element
    part: TablePart = "first"
    rows: list[tuple[list[Cell], GridRow]] = field(default_factory=list)
    above: dict[int, str] = field(default_factory=dict)
    repeated: int = 0

    def spread(self, places: int) -> None:
        """Count places that a cell spans besides its first. Raises ReadError with DOCUMENT_TOO_LARGE."""
        self.repeated += places
        if self.repeated > MAX_CELLS:
            raise ReadError("DOCUMENT_TOO_LARGE", f"a table with cells over more than {MAX_CELLS} places")

    def taken(self) -> list[GridRow]:
        """Return the rows that were not taken before."""
        rows, self.rows = self.rows, []
        merged = zip(spread((cells for cells, _ in rows), MAX_CELLS), rows, strict=True)
        return [row._replace(cells=each.cells, left=each.left - row.above) for each, (_, row) in merged]


class _Numbering:
    """Marks of list items: bullets, and running numbers."""

    def __init__(self, numbering: Element | None) -> None:
        self._levels: dict[str, dict[int, tuple[str, str, int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._shared: dict[str, str] = {}
        if numbering is None:
            return
        kinds = {one.get(_w("abstractNumId")): one for one in numbering.iterchildren(_w("abstractNum"))}
        for number in numbering.iterchildren(_w("num")):
            kind = _value(number, "abstractNumId")
            if kind in kinds:
                identifier = number.get(_w("numId"))
                is_own = number.find(_w("lvlOverride")) is not None
                self._shared[identifier] = identifier if is_own else str(kind)
                self._levels[identifier] = {
                    int(level.get(_w("ilvl"))): (
                        _value(level, "numFmt") or "decimal",
                        _value(level, "lvlText", "%1."),
                        int(_value(level, "start") or 1),
                    )
                    for level in kinds[kind].iterchildren(_w("lvl"))
                }

    def next(self, paragraph: Element, style: _Style) -> str | None:
        """Return the mark of a paragraph that is numbered, by itself or its style; None for others."""
        depth = _depth(paragraph, style)
        identifier = _value(_numbered(paragraph.find(_w("pPr"))), "numId") or style.numbering
        levels = self._levels.get(identifier or "")
        if identifier is None or levels is None or depth not in levels:
            return None
        number_format, shown, start = levels[depth]
        if number_format == "bullet":
            return "-"
        if number_format == "none":
            return None
        counts = self._counts.setdefault(self._shared[identifier], {})
        counts[depth] = counts.get(depth, start - 1) + 1
        for deeper in [level for level in counts if level > depth]:
            del counts[deeper]
        return re.sub(
            r"%(\d)",
            lambda place: _numeral(counts.get(int(place[1]) - 1, 1), levels.get(int(place[1]) - 1, ("",))[0]),
            shown,
        )


_NO_STYLE: Final = _Style()


def _styles(elements: Iterable[Element]) -> dict[str, _Style]:
    """Return the styles by their ids."""
    known = {element.get(_w("styleId")): element for element in elements}

    def based_on(name: str) -> Iterator[Element]:
        seen: set[str] = set()
        while name in known and name not in seen:
            seen.add(name)
            yield known[name]
            name = _value(known[name], "basedOn")

    styles = {}
    for identifier in known:
        chain = list(based_on(identifier))
        names = [_value(style, "name").lower() for style in chain]
        numbered = [found for style in chain if _value(found := _numbered(style.find(_w("pPr"))), "numId")]
        depth = _value(numbered[0], "ilvl") if numbered else ""
        styles[identifier] = _Style(
            level=next(filter(None, map(_style_level, chain)), 0),
            is_bullet=any(name.startswith("list bullet") for name in names),
            numbering=_value(numbered[0], "numId") if numbered else None,
            depth=int(depth) if depth else None,
        )
    return styles


def _style_level(style: Element) -> int:
    """Return the level of a heading by its style's name or outline level."""
    name = _value(style, "name")
    if name.lower() == "title":
        return 1
    if match := _HEADING.match(name):
        return int(match[1])
    return _outline_level(style.find(_w("pPr")), 0)


def _outline_level(properties: Element | None, default: int) -> int:
    """Return the level that a paragraph itself states; 0 for text."""
    said = _value(properties, "outlineLvl")
    return (int(said) + 1 if int(said) < 9 else 0) if said else default


def _depth(paragraph: Element, style: _Style) -> int:
    """Return how deep an item is in its list."""
    numbering = _numbered(paragraph.find(_w("pPr")))
    if _value(numbering, "numId") or style.depth is None:
        return min(int(_value(numbering, "ilvl") or 0), 8)
    return min(style.depth, 8)


def _numbered(properties: Element | None) -> Element | None:
    return None if properties is None else properties.find(_w("numPr"))


def _notes(root: Element | None) -> Mapping[str, str]:
    """Return footnotes or comments by their ids."""
    return {
        note.get(_w("id")): f"{_author(note)}{' '.join(_words(note))}"
        for note in (() if root is None else root)
        if isinstance(note.tag, str) and note.get(_w("type")) is None
    }


def _is_in_body(element: Element) -> bool:
    """Return whether an element stands in the text itself, not in a table or a box."""
    *outer, _ = element.iterancestors()
    return all(_name(one) in _CONTAINERS for one in outer)


def _is_outermost(element: Element, parent: Element) -> bool:
    """Return whether no element between the two is written by itself or is a fallback for old programs."""
    for outer in element.iterancestors():
        if outer is parent:
            break
        if _name(outer) in {"txbxContent", "Fallback", "tbl"}:
            return False
    return True


def _give_up(element: Element) -> None:
    """Free an element that was read, and those before it."""
    element.clear()
    parent = element.getparent()
    while (before := element.getprevious()) is not None:
        parent.remove(before)


def _numeral(number: int, number_format: str) -> str:
    match number_format:
        case "lowerLetter" | "upperLetter" if number <= 26:
            letter = chr(ord("a") + number - 1)
            return letter if number_format == "lowerLetter" else letter.upper()
        case "lowerRoman" | "upperRoman" if number < 40:
            roman = (
                "x" * (number // 10)
                + ["", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"][number % 10]
            )
            return roman if number_format == "lowerRoman" else roman.upper()
        case _:
            return str(number)


def _words(element: Element) -> Iterator[str]:
    for text in element.iter(_w("t")):
        yield from (text.text or "").split()


def _author(note: Element) -> str:
    author = note.get(_w("author"))
    return f"Comment by {author}: " if author else ""


def _value(parent: Element | None, name: str, default: str = "") -> str:
    """Return the value of a property, which is an element's attribute."""
    found = None if parent is None else parent.find(_w(name))
    return default if found is None else str(found.get(_w("val"), default))


def _w(name: str) -> str:
    return f"{{{_NAMES['w']}}}{name}"


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
