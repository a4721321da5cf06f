"""Front matter: the fields of a Markdown document before its text, between lines of three hyphens."""

import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

import yaml

from groundline_extraction.documents import FileContent, GivenDocument

MAX_EXACT: Final = 2**53
"""Whole numbers up to here are exact in the doubles that a Struct holds."""

# CommonMark would read the closing line as the underline of a heading. At most 500 lines are looked at.
FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*(?:\r\n?|\n)(?:[^\r\n]*(?:\r\n?|\n)){0,500}?(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)"
)

MAX_BYTES: Final = 16 * 1024
"""Maximum size of front matter; a longer block is text."""
MAX_DEPTH: Final = 8
_TYPES: Final = ("text/markdown", "text/x-markdown")
_SUFFIXES: Final = (".md", ".markdown")
# NUL, and halves of surrogate pairs, which PostgreSQL does not store.
_NO_TEXT: Final = re.compile("[\x00\ud800-\udfff]")


def front_matter(given: GivenDocument) -> Mapping[str, Any]:
    """Return the members of the front matter as JSON values; {} if the document is not Markdown or its front
    matter cannot be read.

    Other values, such as dates, become text. Aliases are not followed: they can stand for more than memory
    holds.
    """
    kind = given.mime_type.partition(";")[0].strip().lower()
    if kind not in _TYPES and (kind or not given.uri.lower().endswith(_SUFFIXES)):
        return {}
    begin = FRONT_MATTER.match(_begin(given.content))
    if begin is None:
        return {}
    block = begin[0].rstrip()[3:-3]
    if _NO_TEXT.search(block):
        return {}
    try:
        # By libyaml: in Python, a block of nothing but brackets would take half a minute.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(block, Loader=yaml.CSafeLoader)):
            return {}
        found = yaml.load(block, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return {}
    return _members(found, 1) if isinstance(found, dict) else {}


def _begin(content: str | bytes | FileContent) -> str:
    if isinstance(content, FileContent):
        content = next(content.parts(MAX_BYTES), b"")
    if isinstance(content, bytes):
        # Other charsets leave halves of surrogate pairs, and are skipped.
        content = content[:MAX_BYTES].decode("utf-8", "surrogateescape")
    return content[:MAX_BYTES].removeprefix("\ufeff")


def _members(found: dict[Any, Any], depth: int) -> dict[str, Any]:
    return {_text(name): _value(value, depth) for name, value in found.items()}


def _value(value: Any, depth: int) -> Any:
    match value:
        case None | bool():
            return value
        case int() if abs(value) <= MAX_EXACT:
            return value
        case float() if math.isfinite(value):
            return value
        case dict() if depth < MAX_DEPTH:
            return _members(value, depth + 1)
        case list() if depth < MAX_DEPTH:
            return [_value(one, depth + 1) for one in value]
        case date():
            return value.isoformat()
        case _:
            return _text(value)


def _text(value: object) -> str:
    return _NO_TEXT.sub("", str(value))
