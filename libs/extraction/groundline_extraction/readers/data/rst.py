"""reStructuredText, as Sphinx and Python projects write it: headings, code, lists and tables, in Markdown.

Directives that only steer a site, comments and targets are left out; the text of others is read. docutils,
which knows neither Sphinx's directives nor its roles, puts an error in the place of each.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from textwrap import dedent
from typing import Final

from groundline_extraction.encoding import decoded
from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import Hints, Read, ReaderLimits
from groundline_extraction.readers.grids import GridRow

MAX_DEPTH: Final = 20
"""Maximum depth of directives within directives; what is deeper is one paragraph."""

_ADORNMENT: Final = re.compile(r"([!-/:-@[-`{-~])\1+$")
_DIRECTIVE: Final = re.compile(r"\.\. ([A-Za-z][\w:+.-]*?)::(?:\s+(.*))?$")
_OPTION: Final = re.compile(r":[\w -]+:(?:\s|$)")
_ITEM: Final = re.compile(r"(?:[-*+•]|#\.|\(?(?:\d{1,3}|[A-Za-z])[.)])\s+(?=\S)")
_GRID: Final = re.compile(r"\+(?:[-=]+\+)+$")
_SIMPLE: Final = re.compile(r"=+(?: +=+)+$")
_SPAN: Final = re.compile(r"=+")

_CODE: Final = frozenset(("code", "code-block", "sourcecode", "parsed-literal", "prompt", "doctest", "math"))
_LEFT_OUT: Final = frozenset(
    (
        *("toctree", "contents", "image", "raw", "include", "index", "highlight", "meta", "literalinclude"),
        *("replace", "unicode", "role", "default-role", "currentmodule", "module", "py:module", "sectnum"),
    )
)
_BARE: Final = frozenset(("figure", "only", "container", "rst-class", "class", "tabs", "table", "list-table"))
"""Directives whose argument is not part of the text."""
_CALLED: Final = frozenset(
    (
        "note",
        "warning",
        "tip",
        "hint",
        "important",
        "caution",
        "danger",
        "attention",
        "error",
        "seealso",
        "todo",
    )
)
"""Directives whose name stands before their text."""

_LITERAL: Final = re.compile(r"``(.+?)``")
_LINK: Final = re.compile(r"`([^`<]*[^`<\s])\s*<([^`<>]+)>`__?")
_ROLE: Final = re.compile(r":([\w:+.-]+):`([^`]+)`")
_TARGET: Final = re.compile(r"<[^<>]*>$")
_REFERENCE: Final = re.compile(r"`([^`]+)`__?(?!\w)")
_LITERAL_ROLES: Final = frozenset(("code", "file", "command", "program", "option", "envvar", "kbd", "samp"))


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read headings, text, code, lists and tables. Raises ReadError with INVALID_ENCODING or
    DOCUMENT_TOO_LARGE."""
    text = decoded(data, charset=hints.charset or "utf-8").removeprefix("\ufeff")
    builder = MarkdownBuilder(limits)
    title = _Writer(builder).document(text.expandtabs(8).splitlines())
    return builder.read(title=title)


class _Writer:
    def __init__(self, builder: MarkdownBuilder) -> None:
        self._builder = builder
        self._styles: list[tuple[str, bool]] = []
        """Adornments of headings by level: the character, and whether it stands above, too."""
        self._title = ""

    def document(self, lines: Sequence[str]) -> str:
        """Write all lines; return the title of the first section."""
        self._blocks(lines, 0)
        return self._title

    def _blocks(self, lines: Sequence[str], depth: int) -> None:
        if depth > MAX_DEPTH:
            self._builder.paragraph(" ".join(map(str.strip, lines)))
            return
        index = 0
        while index < len(lines):
            line = lines[index]
            if not line.strip():
                index += 1
            elif taken := self._section(lines, index):
                index += taken
            elif line.startswith("..") and line[2:3] in ("", " "):
                end = _end_of_indented(lines, index + 1)
                self._explicit(line.rstrip(), lines[index + 1 : end], depth)
                index = end
            elif taken := self._table(lines, index):
                index += taken
            elif _ITEM.match(line):
                index += self._item(lines, index, depth)
            elif line[0] == " ":
                end = _end_of_indented(lines, index)
                self._blocks(dedent("\n".join(lines[index:end])).split("\n"), depth + 1)
                index = end
            else:
                index += self._paragraph(lines, index, depth)

    def _section(self, lines: Sequence[str], index: int) -> int:
        """Write a heading; return how many lines it takes, 0 for other lines."""
        first = lines[index].rstrip()
        following = [line.rstrip() for line in lines[index + 1 : index + 3]]
        has_overline = _ADORNMENT.match(first) is not None
        if has_overline and len(following) == 2 and following[1] == first and following[0].strip():
            title, mark, taken = following[0], first, 3
        elif not has_overline and following and _ADORNMENT.match(following[0]) and first[0] != " ":
            title, mark, taken = first, following[0], 2
        else:
            # A line of marks alone parts sections.
            return 1 if has_overline and len(first) > 3 and not (following and following[0]) else 0
        if len(mark) < min(len(title.strip()), 4):
            return 0
        style = (mark[0], taken == 3)
        if style not in self._styles:
            self._styles.append(style)
        title = _inline(title.strip())
        self._title = self._title or title
        self._builder.heading(self._styles.index(style) + 1, title)
        return taken

    def _explicit(self, line: str, body: Sequence[str], depth: int) -> None:
        """Write a directive; comments, targets and substitutions are left out."""
        found = _DIRECTIVE.match(line)
        if found is None or found[1] in _LEFT_OUT:
            return
        name, argument = found[1], (found[2] or "").strip()
        rest = dedent("\n".join(body)).split("\n")
        options = list(takewhile(lambda each: _OPTION.match(each) is not None, rest))
        rest = rest[len(options) :]
        if name in _CODE:
            self._builder.code("\n".join(rest), argument if name != "math" else "")
            return
        if name in _CALLED:
            rest = [f"{argument} {' '.join(rest[:1])}".strip(), *rest[1:]]
            rest[0] = f"{name.capitalize()}: {rest[0]}"
            argument = ""
        if argument and name not in _BARE:
            self._builder.paragraph(_inline(argument))
        self._blocks(rest, depth + 1)

    def _item(self, lines: Sequence[str], index: int, depth: int) -> int:
        """Write an item of a list, and what is indented below it; return how many lines it takes."""
        found = _ITEM.match(lines[index])
        assert found is not None
        end = _end_of_indented(lines, index + 1)
        body = dedent("\n".join([" " * found.end() + lines[index][found.end() :], *lines[index + 1 : end]]))
        first, *rest = body.split("\n")
        further = [*takewhile(lambda line: line.strip() and not _begins_block(line), rest)]
        own = " ".join([first, *map(str.strip, further)])
        rest = rest[len(further) :]
        mark = found[0].strip()
        mark = mark if mark[0].isdecimal() else "1." if mark == "#." else "-"
        is_literal = own.endswith("::")
        between = "\n" if index and lines[index - 1].strip() else "\n\n"
        self._builder.add(f"{mark} {_inline(own.removesuffix(':') if is_literal else own)}", between=between)
        if is_literal:
            self._builder.code(dedent("\n".join(rest)))
        else:
            self._blocks(rest, depth + 1)
        return end - index

    def _paragraph(self, lines: Sequence[str], index: int, depth: int) -> int:
        """Write a paragraph, with the literal block that it announces or what it defines; return how many
        lines they take."""
        own = [*takewhile(lambda line: line.strip() and line[0] != " ", _from(lines, index))]
        end = index + len(own)
        text = " ".join(line.strip() for line in own)
        below = _end_of_indented(lines, end)
        if text.endswith("::"):
            self._builder.paragraph(_inline(f"{text.rstrip(': ')}:" if text.strip(":") else ""))
            self._builder.code(dedent("\n".join(lines[end:below])))
            return below - index
        self._builder.paragraph(_inline(text))
        if below > end and lines[end].strip():
            self._blocks(dedent("\n".join(lines[end:below])).split("\n"), depth + 1)
            return below - index
        return end - index

    def _table(self, lines: Sequence[str], index: int) -> int:
        """Write a table; return how many lines it takes, 0 for other lines."""
        first = lines[index].rstrip()
        if _GRID.match(first):
            block = [*takewhile(lambda line: line[:1] in ("+", "|"), map(str.rstrip, _from(lines, index)))]
            has_head = any(_GRID.match(line) and "=" in line for line in block)
            self._builder.table(_grid_rows(block), has_head=has_head)
            return len(block)
        if _SIMPLE.match(first):
            end = index + 1
            while end < len(lines) and not (_SIMPLE.match(lines[end].rstrip()) and _is_last(lines, end)):
                end += 1
            block = [line.rstrip() for line in lines[index:end]]
            self._builder.table(_simple_rows(block), has_head=any(map(_SIMPLE.match, block[1:])))
            return end + 1 - index
        return 0


def _from(lines: Sequence[str], start: int) -> Iterator[str]:
    return (lines[index] for index in range(start, len(lines)))


def _end_of_indented(lines: Sequence[str], start: int) -> int:
    """Return the index behind the lines that are indented or blank, without blank ones at the end."""
    end = start
    for index in range(start, len(lines)):
        if lines[index].strip():
            if lines[index][0] != " ":
                break
            end = index + 1
    return end


def _begins_block(line: str) -> bool:
    return line.startswith(".. ") or _ITEM.match(line) is not None or line[0] == " "


def _is_last(lines: Sequence[str], index: int) -> bool:
    """Tell whether a border of a simple table is its last one: nothing stands right below it."""
    return index + 1 == len(lines) or not lines[index + 1].strip()


def _grid_rows(block: Sequence[str]) -> list[GridRow]:
    """Return the rows of a grid table; a cell over several columns is in the first of them."""
    edges = [at for at, mark in enumerate(block[0]) if mark == "+"]
    rows: list[GridRow] = []
    cells = [""] * (len(edges) - 1)
    for line in block[1:]:
        if _GRID.match(line):
            rows.append(GridRow([_inline(cell) for cell in cells]))
            cells = [""] * (len(edges) - 1)
            continue
        for column, (left, right) in enumerate(pairwise(edges)):
            cells[column] = f"{cells[column]} {line[left + 1 : right].strip(' |')}".strip()
    return rows


def _simple_rows(block: Sequence[str]) -> list[GridRow]:
    """Return the rows of a simple table; a line without a first cell goes on with the row above."""
    starts = [found.start() for found in _SPAN.finditer(block[0])]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in block[1:]:
        if not line.strip() or _SIMPLE.match(line) or _ADORNMENT.match(line.replace(" ", "")):
            continue
        cells = [line[left:right].strip() for left, right in zip(starts, ends, strict=True)]
        if rows and not cells[0]:
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    return [GridRow([_inline(cell) for cell in row]) for row in rows]


def _inline(text: str) -> str:
    """Return text with its inline markup in Markdown."""
    parts = _LITERAL.split(text)
    return "".join(f"`{part}`" if at % 2 else _marked(part) for at, part in enumerate(parts))


def _marked(text: str) -> str:
    text = _LINK.sub(r"[\1](\2)", text)
    text = _ROLE.sub(_role, text)
    text = _REFERENCE.sub(r"\1", text)
    return text.replace("\\ ", "")


def _role(found: re.Match[str]) -> str:
    text = _TARGET.sub("", found[2]).rstrip() or found[2]
    return f"`{text}`" if found[1] in _LITERAL_ROLES else text.lstrip("~!")
