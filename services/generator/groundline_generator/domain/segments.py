"""Division of text into units that an answer can quote: sentences, list items, table rows, blocks of code."""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, NamedTuple


class Kind(enum.Enum):
    """Kind of a segment; a heading is never quoted by itself. A step is a sentence of a numbered item, a cell
    one of a row whose cells hold sentences."""

    SENTENCE = "sentence"
    STEP = "step"
    HEADING = "heading"
    ROW = "row"
    CELL = "cell"
    CODE = "code"


class Segment(NamedTuple):
    """`text[start:end]` in code points; `heading` holds the headings above, or a table's header; `columns`
    that header alone, as it is written, or the names of a cell's row and column."""

    start: int
    end: int
    kind: Kind
    heading: str = ""
    columns: str = ""


MAX_CODE_LINES: Final = 15
"""Maximum lines of a piece of code; a longer block is cut."""

_FENCE: Final = re.compile(r"\s{0,3}(```+|~~~+)")
_HEADING: Final = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_UNDERLINE: Final = re.compile(r"\s{0,3}(=+|-{2,})\s*$")
_ROW: Final = re.compile(r"\s*\|.*\|\s*$")
_ROW_RULE: Final = re.compile(r"\s*\|[\s:|-]+\|\s*$")
_BAR: Final = re.compile(r"(?<!\\)\|")
_PROSE_WORDS: Final = 12
"""Number of words from which a cell holds a sentence."""
_ITEM: Final = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_INDENTS: Final = ("    ", "\t")
_ENDS_BLOCK: Final = frozenset(("", "#", "`", "~", "|", "=", "-", "{", "<"))
_STATEMENT: Final = re.compile(r"\S+(?:\s+\S+){3,}(?<=[^\W_])[.!]$")
"""A heading that is a whole sentence."""
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(?:[\w-]+:.*\n)(?:.*\n){0,500}?---[ \t]*(?:\n|\Z)")
_NAMES_PAGE: Final = re.compile(
    r"(?:title|sub_?title|slug|permalink|redirect_from|aliases|layout|keywords|tags|categor(?:y|ies))\s*:",
    re.IGNORECASE,
)
"""A field of front matter that names or files a page, and tells nothing that stands on it."""
_DIRECTIVE: Final = re.compile(r"\s*(?:\{%.*%\}|<!--.*-->)\s*$")
"""A line that a site's generator replaces, such as `{% include note.html %}`, or a comment."""
_NOT_SPACE: Final = re.compile(r"\S")
_ALPHANUMERIC: Final = re.compile(r"[^\W_]")
TAG: Final = re.compile(
    r"(?<!\]\()</?(?:(?P<line>br|center|div|hr|p)|a|b|big|del|em|font|i|ins|mark|s|small|span|strong|su[bp]|u|wbr)\b"
    r"[^<>]{0,300}>",
    re.IGNORECASE,
)
"""A tag of HTML within Markdown, which sets text and says nothing; `line` if it ends a line."""
_QUOTE: Final = re.compile(r"\s{0,3}>\s?")
_GAP: Final = re.compile(r"\S(?: {2,}|\t)\S")
_FIELD: Final = re.compile(r"(?:[\w.\[\]-]{1,60}(?: [\w.\[\]-]{1,60}){0,3}|[^\s.]{1,60}\.\S{1,300}): \S")
"""A field of a record: its name, or the path to it, as "paths./api/keys.post.summary"."""

_CODE_LINE: Final = re.compile(
    r"""
    .*[{};]\s*$                                         # ends like a statement or a block
    | \s*(?:def|class|fn|func|function|pub|use|import|from\s+\S+\s+import|return|let|const|var|struct|enum
          |impl|package|namespace|public|private|static|void|async|await|if|else|elif|for|while|try|except|match)\b
          .*[\(\)\{:;=<>]
    | \s*(?://|/\*|\*/|\#include|\#\[|@\w+)              # comments, attributes, decorators
    | \s*[\w.\[\]"']+\s*(?:=|:=|\+=|->|=>)\s*\S            # assignments
    | \s*[\w.:]+\(.*\)?[,;]?\s*$                         # calls
    | \s*[\])}]+[,;)]*\s*$                               # closing brackets
    """,
    re.VERBOSE,
)

# A terminator, closing quotes and brackets, footnote marks, then white space or a tag that ends a line; or a
# full-width terminator.
_BOUNDARY: Final = re.compile(
    r"[.!?…]+[\"'”’»«)\]*_]*(?:\[\d{1,3}\])*(?=\s|</?(?:br|div|p)\b)|[。！？][”’」』）]*"
)
_ABBREVIATION: Final = re.compile(
    r"""(?:^|[\s(\["'„“])(?:
        Mr|Mrs|Ms|Dr|Prof|Mag|Dipl|Ing|Bakk|phil|med|jur|rer|nat|Rev|Hon|Sr|Jr|St|Mt|Gen|Col|Capt|Lt|Sgt|Gov|Sen|Rep|vs|etc|cf|al|ca|approx|Inc|Ltd|Co|Corp
        |No|Nos|Nr|Fig|Figs|Eq|Sec|Ch|Vol|pp?|ed|eds|e\.g|i\.e|U\.S|z\.\s?B|d\.\s?h|u\.\s?a|o\.\s?ä|s\.\s?o|v\.\s?a
        |bzw|usw|evtl|ggf|vgl|sog|inkl|zzgl|Abb|Abs|Art|Bd|Kap|Str|Hr|Fr|Mio|Mrd|Tsd|geb|gest|Jh|u|v
        |Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Okt|Nov|Dec|Dez
        |[^\W\d_]                                       # an initial
    )\.$""",
    re.VERBOSE,
)
_ORDINAL: Final = re.compile(r"(?:^|\s|\()\d{1,2}\.$")
# What bounds the number behind it; "min." behind a number is minutes.
_BOUND: Final = re.compile(r"(?:^|(?<!\d)\s|\()(?:max|min|mind)\.$", re.IGNORECASE)


def segments(text: str, language: str | None, columns: str = "") -> list[Segment]:
    """Return every segment of a text, in order; blank lines, rules and markers belong to none.

    Markdown is understood; plain text works as well. `language` decides the meaning of a number with a full
    stop: an ordinal in German, elsewhere the end of a sentence. `columns` is the header of the table in which
    the text begins.
    """
    return _Cutter(text, language, columns).run()


def header_in(context: str) -> str:
    """Return the header of a table that a passage's context ends with; "" without one."""
    last = context.rstrip().rpartition("\n")[2]
    return last.strip() if _ROW.match(last) else ""


def without_header(context: str) -> str:
    """Return a passage's context without the header of a table that it ends with."""
    return context.rpartition("\n")[0] if header_in(context) else context


def cells(row: str) -> list[str]:
    """Return the cells of a row of a Markdown table."""
    bare = row.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(bare)]


@dataclass(slots=True)
class _Line:
    """A line. `mark` is its first character that is not white space, which rules out most patterns; "" if the
    line is blank."""

    start: int
    text: str
    mark: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class _Cutter:
    def __init__(self, text: str, language: str | None, columns: str) -> None:
        self._text = text
        self._language = language
        self._headings: list[tuple[int, str]] = []
        self._table_header = columns
        self._found: list[Segment] = []

    def run(self) -> list[Segment]:
        lines = list(_lines(self._text))
        index = self._front_matter(lines)
        closing = _orphan_fence(lines)
        if closing is not None:
            self._code(lines[index:closing])
            index = closing + 1
        while index < len(lines):
            line = lines[index]
            if not line.mark or _is_directive(line):
                self._table_header = ""
                index += 1
            elif fence := _fence(line):
                end = _closing_fence(lines, index + 1, fence.group(1))
                self._code(lines[index + 1 : end])
                index = end + 1
            elif heading := _heading(line):
                self._heading(line, len(heading.group(1)), heading.start(2), heading.end(2))
                index += 1
            elif self._table_header and "|" in line.text and not _is_row(line) and self._cells(line):
                index += 1
            elif _is_row(line):
                self._row(line, lines[index + 1] if index + 1 < len(lines) else None)
                index += 1
            else:
                end = _end_of_block(lines, index)
                block = lines[index:end]
                index = end
                if end < len(lines) and len(block) == 1 and (rule := _underline(lines[end])):
                    start, stop = _trimmed(line.text, 0, len(line.text))
                    self._heading(line, 1 if rule.group(1)[0] == "=" else 2, start, stop)
                    index += 1
                else:
                    self._block(block)
        return self._found

    def _front_matter(self, lines: list[_Line]) -> int:
        """Add the fields before a Markdown document's text; return how many lines they take."""
        found = _FRONT_MATTER.match(self._text)
        if found is None:
            return 0
        count = sum(line.start < found.end() for line in lines)
        for line in lines[1 : count - 1]:
            if _FIELD.match(line.text) and not _NAMES_PAGE.match(line.text):
                self._sentence(line.start, line.end, Kind.SENTENCE, "")
        return count

    def _block(self, block: list[_Line]) -> None:
        for part in _parts(block):
            if _is_aligned(part):
                self._aligned(part)
            elif _looks_like_code(part):
                self._code(part)
            else:
                for start, stop, kind in _paragraphs(part):
                    self._sentences(start, stop, kind, self._trail())

    def _trail(self) -> str:
        titles = (title for _, title in self._headings)
        return " ".join([*titles, self._table_header.strip("| ")]).strip()

    def _heading(self, line: _Line, level: int, start: int, end: int) -> None:
        self._headings = [entry for entry in self._headings if entry[0] < level]
        if end > start:
            kind = Kind.SENTENCE if _STATEMENT.match(line.text, start, end) else Kind.HEADING
            self._found.append(Segment(line.start + start, line.start + end, kind, self._trail()))
            self._headings.append((level, line.text[start:end]))

    def _row(self, line: _Line, following: _Line | None) -> None:
        if _ROW_RULE.match(line.text):
            return
        start, end = _trimmed(line.text, 0, len(line.text))
        is_header = following is not None and _ROW_RULE.match(following.text)
        if not is_header and self._table_header and self._cells(line):
            return
        is_label = not any(cells(line.text)[1:]) and bool(self._table_header)
        kind = Kind.HEADING if is_header or is_label else Kind.ROW
        columns = "" if is_header else self._table_header
        self._found.append(Segment(line.start + start, line.start + end, kind, self._trail(), columns))
        if is_header:
            self._table_header = line.text.strip()

    def _cells(self, line: _Line) -> bool:
        """Add the cells of a row with sentences in two of them, each by itself; return whether it is one.

        A text may begin or end within a row, which then lacks its first or last cells.
        """
        start, end = _trimmed(line.text, 0, len(line.text))
        columns, is_ended = cells(self._table_header), _BAR.match(line.text, end - 1) is not None
        bars = [bar.start() for bar in _BAR.finditer(line.text)]
        bounds = [*(() if line.mark == "|" else (start - 1,)), *bars, *(() if is_ended else (end,))]
        spans = [_trimmed(line.text, before + 1, after) for before, after in pairwise(bounds)]
        is_begun = line.mark == "|" and not (line.start == 0 and is_ended and len(spans) < len(columns))
        prose = sum(len(line.text[first:last].split()) >= _PROSE_WORDS for first, last in spans)
        if prose < (2 if is_begun and is_ended else 1) or len(columns) < len(spans):
            return False
        label = line.text[slice(*spans.pop(0))] if is_begun else ""
        columns = columns[1:] if is_begun else columns[-len(spans) :]
        headings = " ".join(title for _, title in self._headings)
        for column, (first, last) in zip(columns, spans, strict=False):
            names = " – ".join(name for name in (label, column) if name)
            heading = f"{headings} {label} {column}".strip()
            self._sentences(line.start + first, line.start + last, Kind.CELL, heading, names)
        return True

    def _aligned(self, lines: list[_Line]) -> None:
        """Add the rows of a plain-text table, whose columns are set apart by spaces; its first line may name
        them."""
        trail, columns = self._trail(), ""
        for index, line in enumerate(lines):
            start, end = _trimmed(line.text, 0, len(line.text))
            is_header = index == 0 and not any(character.isdigit() for character in line.text)
            kind = Kind.HEADING if is_header else Kind.ROW
            self._found.append(Segment(line.start + start, line.start + end, kind, trail, columns))
            if is_header:
                trail, columns = f"{trail} {' '.join(line.text.split())}".strip(), line.text.strip()

    def _code(self, lines: list[_Line]) -> None:
        for index in range(0, len(lines), MAX_CODE_LINES):
            piece = [line for line in lines[index : index + MAX_CODE_LINES] if line.mark]
            if piece:
                self._found.append(Segment(piece[0].start, piece[-1].end, Kind.CODE, self._trail()))

    def _sentences(self, start: int, end: int, kind: Kind, heading: str, columns: str = "") -> None:
        for boundary in _BOUNDARY.finditer(self._text, start, end):
            if self._ends_sentence(start, boundary, end):
                self._sentence(start, boundary.end(), kind, heading, columns)
                start = boundary.end()
        self._sentence(start, end, kind, heading, columns)

    def _sentence(self, start: int, end: int, kind: Kind, heading: str, columns: str = "") -> None:
        if _ALPHANUMERIC.search(TAG.sub("", self._text[start:end])):
            start, end = _trimmed(self._text, start, end)
            self._found.append(Segment(start, end, kind, heading, columns))

    def _ends_sentence(self, begin: int, boundary: re.Match[str], end: int) -> bool:
        if boundary.group()[0] in "。！？":
            return True
        following = _NOT_SPACE.search(self._text, boundary.end(), end)
        if following and following.group().islower():
            return False
        if boundary.group() != ".":
            return True
        before = self._text[max(begin, boundary.end() - 12) : boundary.end()]
        if _ABBREVIATION.search(before):
            return False
        if following and following.group().isdecimal() and _BOUND.search(before):
            return False
        return not (self._language == "german" and _ORDINAL.search(before))


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for raw in text.splitlines(keepends=True):
        yield _Line(start, raw.rstrip("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"), raw.lstrip()[:1])
        start += len(raw)


def _fence(line: _Line) -> re.Match[str] | None:
    return _FENCE.match(line.text) if line.mark in "`~" else None


def _heading(line: _Line) -> re.Match[str] | None:
    return _HEADING.match(line.text) if line.mark == "#" else None


def _is_directive(line: _Line) -> bool:
    return line.mark in "{<" and _DIRECTIVE.match(line.text) is not None


def _is_row(line: _Line) -> bool:
    return line.mark == "|" and _ROW.match(line.text) is not None


def _underline(line: _Line) -> re.Match[str] | None:
    return _UNDERLINE.match(line.text) if line.mark in "=-" else None


def _closing_fence(lines: list[_Line], start: int, fence: str) -> int:
    """Return the index of the line that closes a fence, or the number of lines if none does."""
    for index in range(start, len(lines)):
        stripped = lines[index].text.strip()
        if stripped.startswith(fence) and not stripped.strip(fence[0]):
            return index
    return len(lines)


def _orphan_fence(lines: list[_Line]) -> int | None:
    """Return the index of the fence that closes a block of code which began before the text; None if there is
    no such fence.

    A text may be cut out of a document. Did its first fence open a block, another one that names a language
    would stand inside a block, or the last block would be open, and the text look like code only outside it.
    """
    fences = [(index, fence) for index, line in enumerate(lines) if (fence := _fence(line))]
    if not fences or _is_opening(lines[fences[0][0]]):
        return None
    first = fences[0][0]
    if not _are_paired(lines, fences):
        return first if _are_paired(lines, fences[1:]) else None
    before = [line for line in lines[:first] if line.mark]
    behind = lines[first + 1 : fences[1][0] if len(fences) > 1 else len(lines)]
    is_text_behind = any(_is_row(line) or line.text.startswith("##") for line in behind)
    is_open = len(fences) % 2 == 1
    return first if is_open and (is_text_behind or (before and _looks_like_code(before))) else None


def _is_opening(line: _Line) -> bool:
    """Tell whether a fence can only open a block, since it names a language."""
    return bool(line.text.strip().lstrip("`~"))


def _are_paired(lines: list[_Line], fences: list[tuple[int, re.Match[str]]]) -> bool:
    """Tell whether, if the first fence opens a block, none that names a language stands inside a block."""
    end = -1
    for index, fence in fences:
        if index > end:
            end = _closing_fence(lines, index + 1, fence.group(1))
        elif index < end and _is_opening(lines[index]):
            return False
    return True


def _end_of_block(lines: list[_Line], start: int) -> int:
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if line.mark in _ENDS_BLOCK and (
            not line.mark
            or _heading(line)
            or _fence(line)
            or _is_row(line)
            or _is_directive(line)
            or (index == start + 1 and _underline(line))
        ):
            return index
    return len(lines)


def _parts(block: list[_Line]) -> list[list[_Line]]:
    """Cut a block where indented code meets other text."""
    runs = [list(lines) for _, lines in groupby(block, key=lambda line: line.text.startswith(_INDENTS))]
    if len(runs) == 1 or not any(_looks_like_code(run) for run in runs if run[0].text.startswith(_INDENTS)):
        return [block]
    return runs


def _is_aligned(block: list[_Line]) -> bool:
    return len(block) > 2 and all(_GAP.search(line.text) for line in block)


def _looks_like_code(block: list[_Line]) -> bool:
    if _ITEM.match(block[0].text):
        return False
    others_allowed = (len(block) - 1) // 2
    for line in block:
        if not _CODE_LINE.match(line.text):
            others_allowed -= 1
            if others_allowed < 0:
                return False
    return True


def _paragraphs(block: list[_Line]) -> Iterator[tuple[int, int, Kind]]:
    """Yield the spans of the block's paragraphs and list items, without their markers; for a record, those of
    its fields, one per line."""
    if len(block) > 1 and all(_FIELD.match(line.text) for line in block):
        yield from ((line.start, line.end, Kind.SENTENCE) for line in block)
        return
    start = end = -1
    kind = Kind.SENTENCE
    for line in block:
        marker = _ITEM.match(line.text) or (_QUOTE.match(line.text) if start < 0 else None)
        if marker and start >= 0:
            yield start, end, kind
        if marker or start < 0:
            start = line.start + (marker.end() if marker else 0)
            kind = Kind.STEP if marker and line.mark.isdecimal() else Kind.SENTENCE
        end = line.end
    if start >= 0:
        yield start, end, kind


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    bare = piece.lstrip()
    return end - len(bare), end - len(bare) + len(bare.rstrip())
