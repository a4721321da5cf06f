"""HTML elements as Markdown blocks, all of them: the content is chosen before."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from groundline_extraction.readers.building import MarkdownBuilder, TablePart
from groundline_extraction.readers.grids import spread

type Element = Any
"""lxml's elements, whose stubs do not tell them from comments."""

MAX_DEPTH: Final = 200
MAX_SPAN: Final = 1000
"""Maximum columns or rows that a cell may span, as browsers have it."""
MAX_REPEATED_CELLS: Final = 200_000
"""Maximum further places of one table that spanning cells fill."""

_LEFT_OUT: Final = frozenset(
    (
        *("script", "style", "noscript", "template", "head", "title", "meta", "link", "iframe", "object"),
        *("embed", "svg", "math", "canvas", "audio", "video", "input", "select", "button", "textarea"),
        *("map", "nav"),
    )
)
HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
BLOCKS: Final = frozenset((*HEADINGS, "ul", "ol", "dl", "table", "pre", "img", "blockquote"))
"""Elements that are written as a whole; the contents of others are written block by block."""
INLINE: Final = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em"),
        *("font", "i", "img", "ins", "kbd", "label", "mark", "q", "ruby", "rb", "rt", "rp", "s", "samp"),
        *("small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "br"),
    )
)
_SPACE: Final = re.compile(r"[ \t\r\n\f\xa0]+")


def add_markup(
    builder: MarkdownBuilder,
    element: Element,
    *,
    picture: Callable[[str], str] = lambda src: "",
    table_part: TablePart = "whole",
) -> None:
    """Add the blocks of an element in order; `picture` returns the text on an image, by its src.
    `table_part`: the part of a table that those within are."""
    _Writer(builder, picture, table_part).element(element, 0)


def is_left_out(tag: str, style: str, *, is_hidden: bool) -> bool:
    """Return whether an element has nothing to read, or is not shown."""
    return tag in _LEFT_OUT or is_hidden or "display:none" in style.replace(" ", "").lower()


def span(element: Element, name: str) -> int:
    """Return how many columns or rows a cell spans."""
    value = element.get(name) or "1"
    return min(max(int(value), 1), MAX_SPAN) if value.isdecimal() else 1


class _Writer:
    def __init__(
        self, builder: MarkdownBuilder, picture: Callable[[str], str], table_part: TablePart
    ) -> None:
        self._builder = builder
        self._picture = picture
        self._table_part = table_part

    def element(self, element: Element, depth: int) -> None:
        tag = _tag(element)
        if _is_left_out(element):
            return
        if depth > MAX_DEPTH:
            self._builder.paragraph(_words(element))
        elif tag in HEADINGS:
            self._builder.heading(int(tag[1]), self._inline(element))
        elif tag in {"ul", "ol", "dl"} and not _holds_headings(element):
            self._builder.add("\n".join(self._items(element, 0)))
        elif tag == "table":
            self._table(element, depth)
        elif tag == "pre":
            self._builder.code("".join(element.itertext()))
        elif tag == "img":
            self._builder.paragraph(self._image(element))
        elif tag == "blockquote":
            self._builder.add("\n".join(f"> {line}" for line in self._inline(element).splitlines()))
        else:
            self._flow(element, depth)

    def _flow(self, element: Element, depth: int) -> None:
        """Write a mix of blocks and text, whose runs are paragraphs."""
        run = [element.text or ""]
        for child in element:
            if _tag(child) in INLINE and not _holds_blocks(child):
                run.append(self._inline_of(child))
            else:
                self._end(run)
                self.element(child, depth + 1)
            run.append(child.tail or "")
        self._end(run)

    def _end(self, run: list[str]) -> None:
        self._builder.paragraph(_tidy("".join(run)))
        run.clear()

    def _inline(self, element: Element) -> str:
        return _tidy(
            (element.text or "") + "".join(self._inline_of(child) + (child.tail or "") for child in element)
        )

    def _inline_of(self, element: Element) -> str:
        tag = _tag(element)
        if tag == "br":
            return "\x0b"
        if tag == "img":
            return self._image(element)
        if _is_left_out(element):
            return ""
        text = (element.text or "") + "".join(
            self._inline_of(child) + (child.tail or "") for child in element
        )
        if tag == "sup" and text.strip().isdecimal():
            return f"[{text.strip()}]"  # a footnote's mark would run into the word before it
        if tag == "span" and text[:1].isalpha() and _is_behind_number(element):
            text = f" {text}"  # a style sheet sets the number of an item apart
        return f"\x0b{text}\x0b" if tag not in INLINE else text

    def _image(self, element: Element) -> str:
        alternative = " ".join((element.get("alt") or "").split())
        return " ".join(filter(None, (alternative, self._picture(element.get("src") or ""))))

    def _items(self, element: Element, depth: int) -> Iterator[str]:
        number = int(start) if (start := element.get("start") or "1").lstrip("-").isdecimal() else 1
        for child in element:
            tag = _tag(child)
            if tag in {"ul", "ol"}:
                yield from self._items(child, depth + 1)
            if tag not in {"li", "dt", "dd"}:
                continue
            mark = f"{number}. " if _tag(element) == "ol" else "" if tag == "dt" else "- "
            number += tag == "li"
            own = [child.text or ""]
            below: list[Element] = []
            for inner in child:
                if _tag(inner) in {"ul", "ol", "dl"}:
                    below.append(inner)
                else:
                    own.append(self._inline_of(inner))
                own.append(inner.tail or "")
            text = _tidy("".join(own))
            if text:
                indent = "  " * min(depth, 20)
                yield indent + mark + text.replace("\n", f"\n{indent}{' ' * len(mark)}")
            for inner in below if depth < MAX_DEPTH else ():
                yield from self._items(inner, depth + 1)

    def _table(self, element: Element, depth: int) -> None:
        rows = [row for row in element.iter("tr") if next(row.iterancestors("table"), None) is element]
        if _holds_headings(element) or any(_is_laid_out(cell, len(rows)) for row in rows for cell in row):
            for row in rows:
                for cell in row:
                    self._flow(cell, depth + 1)
            return
        if (caption := element.find("caption")) is not None:
            self._builder.paragraph(self._inline(caption))
        cells = [
            [
                (self._inline(cell).replace("\n", " "), span(cell, "colspan"), span(cell, "rowspan"))
                for cell in row
                if _tag(cell) in {"td", "th"}
            ]
            for row in rows
        ]
        grid = [
            line._replace(is_head=_is_head(row))
            for line, row in zip(spread(cells, MAX_REPEATED_CELLS), rows, strict=True)
        ]
        if max((len(line.cells) for line in grid), default=0) > 1:
            self._builder.table(grid, part=self._table_part)
        else:
            for line in grid:
                self._builder.paragraph(" ".join(line.cells))


def _is_behind_number(element: Element) -> bool:
    """Tell whether a span of its own right before this one ends with a digit, outside of code."""
    before = element.getprevious()
    if before is None or _tag(before) != "span" or before.tail or not _words(before)[-1:].isdecimal():
        return False
    return all(_tag(each) != "code" for each in element.iterancestors())


def _tag(element: Element) -> str:
    """Return the tag's name; "" for comments and elements that are not HTML's."""
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else "script"


def _is_left_out(element: Element) -> bool:
    is_hidden = element.get("hidden") is not None
    return is_left_out(_tag(element), element.get("style") or "", is_hidden=is_hidden)


def _holds_blocks(element: Element) -> bool:
    return any(_tag(inner) not in INLINE for inner in element.iterdescendants() if isinstance(inner.tag, str))


def _holds_headings(element: Element) -> bool:
    return any(_tag(inner) in HEADINGS for inner in element.iterdescendants())


def _is_laid_out(cell: Element, rows: int) -> bool:
    """Tell whether a cell holds a table, or several paragraphs in the only row: a layout, not data."""
    return cell.find(".//table") is not None or (rows == 1 and len(cell.findall(".//p")) > 1)


def _is_head(row: Element) -> bool:
    """Tell whether a row stands in the table's head, or is of heading cells only."""
    if _tag(row.getparent()) == "thead":
        return True
    cells = [_tag(cell) for cell in row if _tag(cell) in {"td", "th"}]
    return bool(cells) and "td" not in cells


def _words(element: Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def _tidy(text: str) -> str:
    """Return text with single spaces, and line ends only where the author asked for them."""
    lines = (_SPACE.sub(" ", line).strip() for line in text.split("\x0b"))
    return "\n".join(filter(None, lines))
