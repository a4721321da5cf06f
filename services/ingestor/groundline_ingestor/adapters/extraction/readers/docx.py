"""DOCX, opened by python-docx, as Markdown: headings, numbered lists, tables, notes and comments."""

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import docx
from docx.oxml.ns import nsmap, qn
from lxml import etree

from groundline_ingestor.adapters.extraction.readers.building import MarkdownBuilder, escaped
from groundline_ingestor.adapters.extraction.readers.common import Hints, Read, ReaderLimits, ReadError
from groundline_ingestor.adapters.extraction.readers.markup import spread
from groundline_ingestor.adapters.extraction.readers.pictures import picture_text
from groundline_ingestor.adapters.extraction.readers.xml import parsed
from groundline_ingestor.adapters.extraction.zips import open_zip

__all__ = ["read"]

type Element = Any

MAX_CELLS: Final = 500_000
"""Of one table, with those that a cell spans."""

_HEADING: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)
_NOTES: Final = ("footnotes", "endnotes", "comments")
_ONLY_NUMBER: Final = re.compile(r"\W*(?:page|seite)?\W*\d*\W*(?:of|von|/)?\W*\d*\W*", re.IGNORECASE)


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """The body in reading order, then notes, comments, and what stands above and below the pages.

    Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT or DOCUMENT_TOO_LARGE.
    """
    open_zip(data, limits).close()
    try:
        document = docx.Document(io.BytesIO(data))
        return _Writer(document, limits).read()
    except (ReadError, MemoryError, RecursionError):
        raise
    except Exception as error:
        # XML and package layers each have errors of their own for a broken file.
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound DOCX ({type(error).__name__})") from None


class _Writer:
    def __init__(self, document: Any, limits: ReaderLimits) -> None:
        self._document = document
        self._limits = limits
        self._builder = MarkdownBuilder(limits)
        self._styles = {style.get(qn("w:styleId")): style for style in document.styles.element}
        self._numbering = _Numbering(document)
        self._notes = {kind: self._notes_of(kind) for kind in _NOTES}
        self._used: dict[tuple[str, str], str] = {}

    def read(self) -> Read:
        self._blocks(self._document.element.body)
        for (kind, identifier), mark in self._used.items():
            if text := self._notes[kind].get(identifier):
                self._builder.paragraph(f"[{mark}] {text}")
        around = dict.fromkeys(text for section in self._document.sections for text in _around(section))
        for text in around:
            self._builder.paragraph(text)
        properties = self._document.core_properties
        return self._builder.read(title=properties.title or "", metadata={"author": properties.author or ""})

    def _blocks(self, parent: Element) -> None:
        items: list[str] = []
        for element in parent:
            name = _name(element)
            if name == "p" and (item := self._item(element)) is not None:
                items.append(item)
                continue
            self._builder.add("\n".join(items))
            items = []
            if name == "p":
                self._paragraph(element)
            elif name == "tbl":
                self._table(element)
            elif name in {"sdt", "sdtContent", "ins", "customXml"}:
                self._blocks(element)
        self._builder.add("\n".join(items))

    def _paragraph(self, element: Element) -> None:
        text = self._text(element)
        level = self._level(element)
        if level and text:
            number = self._numbering.next(element, self._styles)
            self._builder.heading(level, f"{number or ''} {text}".strip())
        else:
            self._builder.paragraph(text)
        for box in element.iter(qn("w:txbxContent")):
            if not any(_name(outer) == "Fallback" for outer in box.iterancestors()):
                self._blocks(box)
        for reference in _all(element, ".//a:blip/@r:embed"):
            part = self._document.part.related_parts.get(reference)
            if part is not None:
                self._builder.paragraph(picture_text(part.blob, self._limits))

    def _level(self, paragraph: Element) -> int:
        """Of a heading, by its outline level, else by its style's name; 0 of other paragraphs."""
        if direct := _all(paragraph, "./w:pPr/w:outlineLvl/@w:val"):
            return int(direct[0]) + 1 if int(direct[0]) < 9 else 0
        for style in self._styles_of(paragraph):
            [name] = _all(style, "./w:name/@w:val") or [""]
            if str(name).lower() == "title":
                return 1
            if match := _HEADING.match(str(name)):
                return int(match[1])
            if level := _all(style, "./w:pPr/w:outlineLvl/@w:val"):
                return int(level[0]) + 1 if int(level[0]) < 9 else 0
        return 0

    def _styles_of(self, paragraph: Element) -> Iterator[Element]:
        """The paragraph's style and those it is based on."""
        return _based_on(self._styles, next(iter(_all(paragraph, "./w:pPr/w:pStyle/@w:val")), None))

    def _item(self, paragraph: Element) -> str | None:
        """A list's item with its mark; None for other paragraphs."""
        if self._level(paragraph):
            return None
        styles = list(self._styles_of(paragraph))
        names = [str(name).lower() for style in styles for name in _all(style, "./w:name/@w:val")]
        number = self._numbering.next(paragraph, self._styles)
        if number is None and not any(name.startswith("list bullet") for name in names):
            return None
        text = self._text(paragraph)
        if not text:
            return None
        indent = "  " * self._numbering.depth(paragraph)
        return f"{indent}{number or '-'} {escaped(text)}"

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
                    key = (kind, element.get(qn("w:id")) or "")
                    if key[1] in self._notes[kind]:
                        mark = self._used.setdefault(key, str(len(self._used) + 1))
                        yield f"[{mark}]"
                case "del" | "moveFrom" | "drawing" | "pict" | "AlternateContent" | "pPr" | "rPr" | "tbl":
                    pass
                case _:
                    yield from self._pieces(element)

    def _table(self, table: Element) -> None:
        rows: list[list[tuple[str, int, int]]] = []
        above: dict[int, str] = {}
        count = 0
        for row in table.iterchildren(qn("w:tr")):
            cells: list[tuple[str, int, int]] = [("", 1, 1)] * min(_value(row, "w:gridBefore", 0), MAX_CELLS)
            for cell in row.iter(qn("w:tc")):
                if next(cell.iterancestors(qn("w:tbl"))) is not table:
                    continue
                columns = _value(cell, "w:gridSpan", 1)
                count += columns
                if count > MAX_CELLS:
                    raise ReadError("DOCUMENT_TOO_LARGE", f"a table of more than {MAX_CELLS} cells")
                place = sum(columns for _, columns, _ in cells)
                text = " ".join(filter(None, map(self._text, cell.iter(qn("w:p")))))
                merge = _all(cell, "./w:tcPr/w:vMerge")
                if merge and merge[0].get(qn("w:val")) != "restart":
                    text = above.get(place, "")
                above[place] = text
                cells.append((text, columns, 1))
            rows.append(cells)
        self._builder.table(spread(rows, MAX_CELLS))

    def _notes_of(self, kind: str) -> Mapping[str, str]:
        for relation in self._document.part.rels.values():
            if not relation.is_external and relation.reltype.endswith(f"/{kind}"):
                notes = parsed(relation.target_part.blob)
                return {
                    note.get(qn("w:id")): f"{_author(note)}{' '.join(_words(note))}"
                    for note in notes
                    if isinstance(note.tag, str) and note.get(qn("w:type")) is None
                }
        return {}


class _Numbering:
    """The marks of list items: bullets, and numbers that count on."""

    def __init__(self, document: Any) -> None:
        self._levels: dict[str, dict[int, tuple[str, str, int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._shared: dict[str, str] = {}
        try:
            numbering = document.part.numbering_part.element
        except (KeyError, NotImplementedError):
            return
        kinds = {one.get(qn("w:abstractNumId")): one for one in numbering.iterchildren(qn("w:abstractNum"))}
        for number in numbering.iterchildren(qn("w:num")):
            [kind] = _all(number, "./w:abstractNumId/@w:val") or [None]
            if kind in kinds:
                identifier = number.get(qn("w:numId"))
                self._shared[identifier] = identifier if _all(number, "./w:lvlOverride") else str(kind)
                self._levels[identifier] = {
                    int(level.get(qn("w:ilvl"))): (
                        str(next(iter(_all(level, "./w:numFmt/@w:val")), "decimal")),
                        str(next(iter(_all(level, "./w:lvlText/@w:val")), "%1.")),
                        int(next(iter(_all(level, "./w:start/@w:val")), 1)),
                    )
                    for level in kinds[kind].iterchildren(qn("w:lvl"))
                }

    def depth(self, paragraph: Element) -> int:
        return min(int(next(iter(_all(paragraph, "./w:pPr/w:numPr/w:ilvl/@w:val")), 0)), 8)

    def next(self, paragraph: Element, styles: Mapping[str, Element]) -> str | None:
        """The mark of a paragraph that is numbered, by itself or its style; None for others."""
        depth = self.depth(paragraph)
        identifier = next(iter(_all(paragraph, "./w:pPr/w:numPr/w:numId/@w:val")), None)
        if identifier is None:
            style = next(iter(_all(paragraph, "./w:pPr/w:pStyle/@w:val")), None)
            for one in _based_on(styles, style):
                if found := _all(one, "./w:pPr/w:numPr/w:numId/@w:val"):
                    identifier = found[0]
                    depth = int(next(iter(_all(one, "./w:pPr/w:numPr/w:ilvl/@w:val")), depth))
                    break
        levels = self._levels.get(str(identifier))
        if levels is None or depth not in levels:
            return None
        number_format, shown, start = levels[depth]
        if number_format == "bullet":
            return "-"
        if number_format == "none":
            return None
        counts = self._counts.setdefault(self._shared[str(identifier)], {})
        counts[depth] = counts.get(depth, start - 1) + 1
        for deeper in [level for level in counts if level > depth]:
            del counts[deeper]
        return re.sub(
            r"%(\d)",
            lambda place: _numeral(counts.get(int(place[1]) - 1, 1), levels.get(int(place[1]) - 1, ("",))[0]),
            shown,
        )


def _all(element: Element, path: str) -> list[Any]:
    """What an XPath finds; python-docx knows the prefixes of some elements only."""
    found: Any = etree._Element.xpath(element, path, namespaces=nsmap)
    return list(found)


def _based_on(styles: Mapping[str, Element], name: str | None) -> Iterator[Element]:
    seen: set[str] = set()
    while name is not None and name in styles and name not in seen:
        seen.add(name)
        yield styles[name]
        name = next(iter(_all(styles[name], "./w:basedOn/@w:val")), None)


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


def _around(section: Any) -> Iterator[str]:
    """What stands above and below the pages, but numbers."""
    for part in (section.header, section.footer, section.first_page_header, section.first_page_footer):
        paragraphs = () if part.is_linked_to_previous else part.paragraphs
        text = "\n".join(filter(None, (paragraph.text.strip() for paragraph in paragraphs)))
        if text and not _ONLY_NUMBER.fullmatch(text):
            yield text


def _words(element: Element) -> Iterator[str]:
    for text in element.iter(qn("w:t")):
        yield from (text.text or "").split()


def _author(note: Element) -> str:
    author = note.get(qn("w:author"))
    return f"Comment by {author}: " if author else ""


def _value(element: Element, name: str, default: int) -> int:
    found = _all(element, f"./w:tcPr/{name}/@w:val | ./w:trPr/{name}/@w:val")
    return int(found[0]) if found else default


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
