"""Running text that only looks like a table: hanging indents, lists and tables of contents."""

import re
from collections.abc import Sequence
from typing import Final

BULLET: Final = re.compile(r"[•◦▪‣·●○■□–—*-]$|\(?[0-9]{1,3}[.)]$|\(?[a-zA-Z][.)]$")
CUT_WORD: Final = re.compile(r"[^\W\d_][-\xad]$")

_PAGE: Final = re.compile(r"[\w-]{1,8}$")
_LEADERS: Final = ".…·_"
_LEAST_LEADERS: Final = 4
_ENDS: Final = (".", ":", "!", "?", ";")
_PROSE_WORDS: Final = 5
"""Words from which on a cell that ends as a sentence does is running text."""


def contents_line(text: str) -> str:
    """Return a line whose leaders lead to one number, as in tables of contents, with an ellipsis in their
    place; "" if it is another line."""
    page = _PAGE.search(text[-8:])
    if page is None:
        return ""
    before = text[: -len(page[0])]
    title = before.rstrip(_LEADERS + " ")
    leaders = sum(before.count(mark, len(title)) for mark in _LEADERS)
    return f"{title} … {page[0]}" if leaders >= _LEAST_LEADERS and any(map(str.isalnum, title)) else ""


def is_hanging(rows: Sequence[Sequence[str]], following: str) -> bool:
    """Return whether rows of two columns are marks or terms with running text beside them, which a table
    would cut at each line. `following` is the line below the last row if it begins where its text does."""
    if not rows or len(rows[0]) != 2:
        return False
    marks = [mark for mark, _ in rows if mark]
    if len(marks) * 2 <= len(rows) or all(map(BULLET.match, marks)):
        return True
    above = ""
    for mark, text in [*rows, ("", following)]:
        if not mark and text and _goes_on(above, text):
            return True
        above = text
    sentences = [text.endswith(_ENDS) and len(text.split()) >= _PROSE_WORDS for _, text in rows]
    # A head would not be a sentence.
    return sentences[0] and sum(sentences) * 2 > len(rows)


def _goes_on(above: str, text: str) -> bool:
    """Return whether a text goes on in the middle of a word or a sentence."""
    if CUT_WORD.search(above):
        return text[0].islower()
    return len(above.split()) >= _PROSE_WORDS - 1 and not above.endswith(_ENDS)
