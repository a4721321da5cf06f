"""HTML that is too long for a tree: block by block, as it is parsed."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from lxml import etree

from groundline_extraction.encoding import Utf8File
from groundline_extraction.readers.building import MarkdownBuilder, TablePart
from groundline_extraction.readers.common import Give, Hints, ReaderLimits, one_line
from groundline_extraction.readers.images.pictures import embedded_pictures
from groundline_extraction.readers.web.markup import (
    BLOCKS,
    INLINE,
    MAX_DEPTH,
    add_markup,
    is_left_out,
)

type Attributes = Mapping[Any, Any]

BLOCK_CHARACTERS: Final = 1 << 16
"""Maximum characters of a block; a longer one is written in parts: a table between its rows, a list between
its items."""
UNBROKEN_CHARACTERS: Final = 1 << 20
"""Maximum characters of a block without such a place to divide it; a longer one is cut anywhere."""
ELEMENT_CHARACTERS: Final = 20
"""Characters that an element counts for."""

_MAX_TITLE_CHARACTERS: Final = 1000
_MAIN: Final = frozenset(("main", "article"))
_AROUND: Final = frozenset(("nav", "aside", "footer", "form"))
_AROUND_ROLES: Final = frozenset(("navigation", "banner", "contentinfo", "complementary"))
_PARTS: Final = frozenset(("tr", "li", "dd"))


def read_long(texts: Callable[[], Iterator[str]], hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Give what the page marks as its main content, else all but navigation and the like.

    `texts` gives the page in parts, as often as it is called. Raises ReadError with DOCUMENT_TOO_LARGE.
    """
    survey = _Survey()
    _parse(texts(), survey)
    builder = MarkdownBuilder(limits, with_pictures=hints.with_pictures)
    blocks = _Blocks(builder, survey, embedded_pictures(builder, limits), give)
    _parse(texts(), blocks)
    blocks.write_rest()
    give(builder.read(title=one_line(survey.title)))


def _parse(texts: Iterator[str], target: Any) -> None:
    """Pass the parser's events to a target; no tree is built. A parser that is fed would keep all that it was
    given."""
    file: Any = Utf8File(texts)
    etree.parse(file, etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True))


class _Survey:
    """Properties of a page that must be known before it is written. See `html` for them."""

    def __init__(self) -> None:
        self.title = ""
        self.is_page = False
        """Whether it has more than its content."""
        self.main_count = 0
        self._main_depth = 0
        self._is_in_title = False

    def start(self, tag: str, attributes: Attributes) -> None:
        if self._main_depth:
            self._main_depth += 1
        elif _is_main(tag, attributes):
            self.main_count += 1
            self._main_depth = 1
        self._is_in_title = tag == "title" and not self.title
        self.is_page = (
            self.is_page
            or tag in _AROUND
            or tag == "header"
            or (tag == "script" and "src" in attributes)
            or (tag == "link" and attributes.get("rel") == "stylesheet")
        )

    def end(self, tag: str) -> None:
        self._is_in_title = False
        if self._main_depth:
            self._main_depth -= 1

    def data(self, text: str) -> None:
        if self._is_in_title and len(self.title) < _MAX_TITLE_CHARACTERS:
            self.title += text

    def close(self) -> None:
        pass


class _Blocks:
    """Writer of each block when it has ended; it frees the block's elements then."""

    def __init__(
        self, builder: MarkdownBuilder, survey: _Survey, picture: Callable[[str], str], give: Give
    ) -> None:
        self._builder = builder
        self._picture = picture
        self._give = give
        self._is_page = survey.is_page
        self._only_main = survey.is_page and survey.main_count == 1
        self._main_depth = 0
        self._left_out_depth = 0
        self._marked: list[str] = []  # open elements that are main content by their name
        self._open: list[tuple[str, dict[Any, Any]]] = []  # elements of the current block
        self._begin()

    def start(self, tag: str, attributes: Attributes) -> None:
        if self._left_out_depth or self._is_left_out(tag, attributes):
            self._left_out_depth += 1
            return
        if tag in _MAIN:
            self._marked.append(tag)
        if self._main_depth or (self._only_main and _is_main(tag, attributes)):
            self._main_depth += 1
        if self._is_outside:
            return
        if not self._open and tag not in INLINE:
            self._write()
        if self._open or tag in INLINE or tag in BLOCKS:
            self._open.append((tag, dict(attributes)))
            if len(self._open) < MAX_DEPTH:
                self._tree.start(tag, dict(attributes))
            self._size += ELEMENT_CHARACTERS

    def end(self, tag: str) -> None:
        if self._left_out_depth:
            self._left_out_depth -= 1
            return
        if self._marked and self._marked[-1] == tag:
            self._marked.pop()
        is_outside = self._is_outside
        if self._main_depth:
            self._main_depth -= 1
        if is_outside:
            return
        if not self._open:
            self._write()
            return
        if len(self._open) < MAX_DEPTH:
            self._tree.end(tag)
        self._open.pop()
        if not self._open and tag in BLOCKS:
            self._write()
        elif tag in _PARTS and len(self._open) <= 2:
            self._items += tag == "li"
            if self._size > BLOCK_CHARACTERS:
                self._write_part()
        elif self._size > UNBROKEN_CHARACTERS:
            self._write_part()

    def data(self, text: str) -> None:
        if self._left_out_depth or self._is_outside:
            return
        self._tree.data(text)
        self._size += len(text)
        if self._size > UNBROKEN_CHARACTERS:
            self._write_part()

    def close(self) -> None:
        """End the parse, also after it was broken off."""

    def write_rest(self) -> None:
        self._write()

    @property
    def _is_outside(self) -> bool:
        return self._only_main and not self._main_depth

    def _is_left_out(self, tag: str, attributes: Attributes) -> bool:
        if is_left_out(tag, attributes.get("style") or "", is_hidden="hidden" in attributes):
            return True
        return self._is_page and (
            tag in _AROUND
            or attributes.get("role") in _AROUND_ROLES
            or (tag == "header" and not self._marked)
        )

    def _begin(self) -> None:
        self._tree = etree.TreeBuilder()
        self._tree.start("div", {})
        self._size = self._items = 0
        self._is_going_on = False

    def _write(self) -> None:
        """Write what has come since the last block."""
        self._add("next" if self._is_going_on else "whole")
        self._begin()

    def _add(self, table_part: TablePart) -> None:
        self._tree.end("div")
        add_markup(self._builder, self._tree.close(), picture=self._picture, table_part=table_part)
        if self._builder.is_piece:
            self._give(self._builder.read())

    def _write_part(self) -> None:
        """Write the block as far as it has come; it continues as the same elements."""
        for tag, _ in reversed(self._open[: MAX_DEPTH - 1]):
            self._tree.end(tag)
        self._add("next" if self._is_going_on else "first")
        if self._open and self._open[0][0] == "ol":
            start = self._open[0][1].get("start", "1")
            number = int(start) if start.isdecimal() else 1
            self._open[0][1]["start"] = str(number + self._items)
        self._begin()
        self._is_going_on = True
        for tag, attributes in self._open[: MAX_DEPTH - 1]:
            self._tree.start(tag, attributes)


def _is_main(tag: str, attributes: Attributes) -> bool:
    return tag in _MAIN or attributes.get("role") == "main"
