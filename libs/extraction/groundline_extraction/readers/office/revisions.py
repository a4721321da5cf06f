"""Tracked changes of RTF: what was deleted is marked, but still stands in the text."""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"\\(?P<word>[a-z]{1,32})(?P<number>-?[0-9]{1,10})? ?|\\'[0-9a-fA-F]{2}|\\.|(?P<brace>[{}])|[^\\{}]+",
    re.DOTALL | re.IGNORECASE,
)
_SHOWN: Final = frozenset(
    {"u", "par", "sect", "page", "line", "tab", "emdash", "endash", "emspace", "enspace", "qmspace", "bullet"}
    | {"lquote", "rquote", "ldblquote", "rdblquote"}
)
"""Control words that stand for text."""


def without_deletions(source: str) -> str:
    """Return RTF without the text that `\\deleted` marks, up to `\\deleted0`, `\\plain` or the end of
    the group."""
    if "\\deleted" not in source:
        return source
    kept: list[str] = []
    outer: list[bool] = []
    is_deleted = False
    at = 0
    while found := _TOKEN.match(source, at):
        at = found.end()
        word = found["word"]
        if word == "bin":  # pictures, whose bytes are no RTF
            at += max(int(found["number"] or 0), 0)
        elif word == "deleted":
            is_deleted = found["number"] != "0"
        elif word == "plain":
            is_deleted = False
        elif found["brace"] == "{":
            outer.append(is_deleted)
        elif found["brace"] == "}":
            is_deleted = outer.pop() if outer else False
        elif is_deleted and (word is None or word in _SHOWN) and found[0] != "\\*":
            continue
        kept.append(source[found.start() : at])
    return "".join(kept)
