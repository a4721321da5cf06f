"""Headings of Markdown texts, by a CommonMark parser: a `#` inside a code fence does not count."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from groundline_extraction.front_matter import FRONT_MATTER

type Heading = tuple[int, str, int]
"""Level from 1, plain title, and start in code points."""

MAX_TITLE_CHARACTERS: Final = 500
MAX_PARSED_TITLE_CHARACTERS: Final = 4 * MAX_TITLE_CHARACTERS
"""Maximum characters of a title with its markup, whose parser takes the square of a run of brackets."""
MAX_HEADINGS: Final = 20_000
"""Maximum number of headings of one text; text behind more candidates has none."""

# What the parser counts as line ends.
_LINE_END: Final = re.compile(r"\r\n?|\n")
# All possible headings, and more.
_CANDIDATE: Final = re.compile(r"^ {0,3}(?:#|=+[ \t]*$|-+[ \t]*$)", re.MULTILINE)


def read_headings(text: str, *, is_beginning: bool = True) -> tuple[Heading, ...]:
    """Return the headings of a Markdown text in order, without those inside quotations, lists and front
    matter, which only the beginning of a document may have."""
    for number, candidate in enumerate(_CANDIDATE.finditer(text)):
        if number == MAX_HEADINGS:
            text = text[: candidate.start()]
            break
    # A parser for each call: it keeps state while it parses, and texts are parsed in several threads.
    parser = MarkdownIt("commonmark").disable("inline")
    titles = MarkdownIt("commonmark")
    line_starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    front_matter = FRONT_MATTER.match(text) if is_beginning else None
    begin = front_matter.end() if front_matter else 0
    headings = []
    tokens = parser.parse(text)
    for token, content in pairwise(tokens):
        if token.type != "heading_open" or token.level or token.map is None:
            continue
        start = line_starts[token.map[0]]
        if start < begin:
            continue
        title = " ".join(_plain(titles.parseInline(content.content[:MAX_PARSED_TITLE_CHARACTERS])).split())
        if title:
            headings.append((int(token.tag[1:]), title[:MAX_TITLE_CHARACTERS], _indented(text, start)))
    return tuple(headings)


def _indented(text: str, start: int) -> int:
    while text[start] == " ":
        start += 1
    return start


def _plain(tokens: Sequence[Token]) -> str:
    """Return inline tokens as text, without their markup."""
    parts = []
    for token in tokens:
        if token.children:
            parts.append(_plain(token.children))
        elif token.type in ("text", "code_inline", "text_special"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
    return "".join(parts)
