"""Main content of a page that marks none: its tree without the text that trafilatura leaves out.

trafilatura tells content from what stands around it, but writes many headings as paragraphs and simple tables
as lines; the tree has both.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from groundline_extraction.readers.web.markup import HEADINGS, INLINE

type Element = Any
"""lxml's elements, whose stubs do not tell them from comments."""

_WORD: Final = re.compile(r"\w+")
_WHOLE: Final = HEADINGS | {"p", "pre", "dt"}
"""Elements that are kept or left out as a whole, whatever they hold."""
_CELLS: Final = frozenset(("td", "th"))
"""Elements that are emptied, not removed: those behind them would move to another column."""
_KEPT_SHARE: Final = 0.5
"""Minimum share of a block's pairs of words that trafilatura must have kept."""


def without_surroundings(body: Element, found: str) -> None:
    """Remove the blocks of a page's body whose words are not in the content `found`; a heading goes with the
    block behind it."""
    words = _WORD.findall(found.lower())
    single, pairs = frozenset(words), frozenset(pairwise(words))
    is_kept = False
    for block in reversed(_blocks(body)):
        told = _WORD.findall(block.text_content().lower())
        if block.tag not in HEADINGS and told:
            is_kept = _share(told, single, pairs) >= _KEPT_SHARE
        if told and not is_kept:
            block.clear(keep_tail=True) if block.tag in _CELLS else block.drop_tree()


def _share(told: Sequence[str], single: frozenset[str], pairs: frozenset[tuple[str, str]]) -> float:
    if len(told) == 1:
        return float(told[0] in single)
    return sum(pair in pairs for pair in pairwise(told)) / (len(told) - 1)


def _blocks(body: Element) -> list[Element]:
    """Return the innermost blocks, in order; without recursion, since elements may be nested without end."""
    found: list[Element] = []
    outer: set[Element] = set()
    within: set[Element] = set()
    for element in body.iterdescendants("*"):
        above = element.getparent()
        if above in within or above.tag in _WHOLE:
            within.add(element)
        elif element.tag not in INLINE:
            found.append(element)
            while above is not body and above not in outer:
                outer.add(above)
                above = above.getparent()
    return [block for block in found if block not in outer]
