"""Layout analysis: words on pages become columns, tables, headings, code and paragraphs.

Coordinates are points from the lower left corner; sizes are heights of a font's box.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from groundline_extraction.readers.grids import MAX_HEADS, is_head_above, is_names, joined_names
from groundline_extraction.readers.pdf.groups import TableColumns, groups_over
from groundline_extraction.readers.pdf.prose import BULLET, CUT_WORD, contents_line, is_hanging

type Box = tuple[float, float, float, float]
"""Left, lower, right and upper edge."""
type Turn = Callable[[float, float, float, float], Box]
"""From a place on the paper to its place on the page as it is shown."""

GAP: Final = 1.0
"""Space between words from which on they are in different cells or columns, in heights of their line."""
MAX_RULES: Final = 1000
"""Maximum lines of a page that are searched for tables; drawings have more."""
SNAP: Final = 3.0
"""Maximum distance of lines that count as one, in points."""

_MARGIN: Final = 0.12
"""Share of a page's height, at top and bottom, that headers and footers stand in."""
_PAGE_NUMBER: Final = re.compile(r"(?:(?:page|seite|p\.|s\.)\s*)?#(?:\s*(?:/|of|von)\s*#)?", re.IGNORECASE)
_LEADER: Final = re.compile(r"[.…·_]{3,}$")
_ENDS: Final = (".", ":", "!", "?", ";")


class Word(NamedTuple):
    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    bold: bool = False
    mono: bool = False

    @property
    def size(self) -> float:
        return self.y1 - self.y0

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


class Rule(NamedTuple):
    """A drawn line, horizontal or vertical."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Page:
    width: float
    height: float
    words: Sequence[Word]
    rules: Sequence[Rule] = ()
    turn: Turn = lambda x0, y0, x1, y1: (x0, y0, x1, y1)


@dataclass(frozen=True, slots=True)
class Style:
    """Common properties of a document's pages: the size of its text, the sizes of its headings from the
    largest, and the headers and footers of many pages."""

    body_size: float
    heading_sizes: Sequence[float]
    running: frozenset[str]


class Cell(NamedTuple):
    """A cell of a table, and where its text is; an empty one is nowhere."""

    text: str = ""
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading or code; or, with rows, a table. `level` 0: not a heading. `lines`: where each
    begins in the text, and where it is on the page."""

    text: str = ""
    level: int = 0
    code: bool = False
    rows: Sequence[Sequence[Cell]] = ()
    lines: Sequence[tuple[int, Box]] = ()


class _Line:
    """Words side by side, from left to right."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.words = sorted(words, key=lambda word: word.x0)
        self.x0, self.x1 = self.words[0].x0, max(word.x1 for word in words)
        self.y0, self.y1 = min(word.y0 for word in words), max(word.y1 for word in words)
        self.size = median(word.size for word in words)
        self.text = " ".join(word.text for word in self.words)
        self.is_hanging = False
        """Whether the line was found to be running text that only looks like a table."""

    @property
    def box(self) -> Box:
        return self.x0, self.y0, self.x1, self.y1

    @cached_property
    def contents(self) -> str:
        """The text without leaders if it is an entry of a table of contents, else ""."""
        return contents_line(self.text)

    @property
    def bold(self) -> bool:
        return all(word.bold for word in self.words if any(map(str.isalnum, word.text)))

    @property
    def mono(self) -> bool:
        return all(word.mono for word in self.words)

    def cells(self) -> list[list[Word]]:
        """Return the words that stand together."""
        cells = [[self.words[0]]]
        for before, word in pairwise(self.words):
            if word.x0 - before.x1 > GAP * self.size:
                cells.append([])
            cells[-1].append(word)
        return cells


# --- the document ---


def style_of(pages: Sequence[Page]) -> Style:
    """Return the style of a document from some of its pages."""
    sizes: Counter[float] = Counter()
    seen: Counter[str] = Counter()
    for page in pages:
        for word in page.words:
            sizes[_rounded(word.size)] += len(word.text)
    body = max(sizes, key=lambda size: sizes[size], default=10.0)
    for page in pages:
        seen.update({_running_key(line, body) for line in _edge_lines(page)})
    larger = sorted((size for size in sizes if size >= body * 1.12), reverse=True)
    merged: list[float] = []
    for size in larger:
        if not merged or size < merged[-1] * 0.94:
            merged.append(size)
    least = max(3, round(0.3 * len(pages)))
    # With two pages both have to agree: lines that differ in their numbers may be text.
    running = {
        key
        for key, count in seen.items()
        if count >= least
        or (count == 2 == len(pages) and "#" not in key)
        or (count >= 2 and _PAGE_NUMBER.fullmatch(key))
    }
    return Style(body, merged, frozenset(running))


def blocks_of(page: Page, style: Style) -> Iterator[Block]:
    """Return the blocks of a page in reading order, without running heads and feet."""
    edges = [line for line in _edge_lines(page) if _running_key(line, style.body_size) in style.running]
    left_out = {id(word) for line in edges for word in line.words}
    words = [word for word in page.words if id(word) not in left_out]
    tables, words = _ruled_tables(page.rules, words)
    # A table takes its place among the lines, as one of them.
    for region in _regions(words, [table[:4] for table in tables]):
        yield from _region_blocks(region, tables, style)


def _edge_lines(page: Page) -> list[_Line]:
    low, high = page.height * _MARGIN, page.height * (1 - _MARGIN)
    above = _lines([word for word in page.words if word.y0 > high])[:2]
    below = _lines([word for word in page.words if word.y1 < low])[-2:]
    return above + below


def _running_key(line: _Line, body_size: float) -> str:
    """Return one key for lines that differ only in their numbers, unless their size makes them headings."""
    text = line.text.casefold()
    masked = re.sub(r"\d+", "#", text)
    return text if line.size >= body_size * 1.12 and not _PAGE_NUMBER.fullmatch(masked) else masked


def _rounded(size: float) -> float:
    return round(size * 2) / 2


# --- lines and columns ---


def _lines(words: Iterable[Word]) -> list[_Line]:
    """Return the lines from top to bottom. A slightly raised or lowered mark, as of a footnote, stands in its
    line."""
    rows: list[list[Word]] = []
    bottoms: list[float] = []
    tops: list[float] = []
    for word in sorted(words, key=lambda word: -word.middle):
        if rows and (tops[-1] >= word.middle >= bottoms[-1]):
            rows[-1].append(word)
            if word.size > (tops[-1] - bottoms[-1]):
                bottoms[-1], tops[-1] = word.y0, word.y1
        else:
            rows.append([word])
            bottoms.append(word.y0)
            tops.append(word.y1)
    return [_Line(row) for row in rows]


type Item = _Line | Box
"""A line, or the box of a ruled table."""


def _regions(words: Sequence[Word], boxes: Sequence[Box]) -> Iterator[list[Item]]:
    """Return columns, and what stands across them, in the order of reading."""
    lines = _lines(words)
    gutters = _gutters(lines)
    if not gutters:
        yield _ordered([*lines, *boxes])
        return
    edges = [-1e9, *((left + right) / 2 for left, right in gutters), 1e9]
    columns: list[list[Item]] = [[] for _ in edges[1:]]
    for item in _ordered([*lines, *boxes]):
        pieces = _divided(item, gutters, edges)
        if pieces is None:
            yield from filter(None, columns)
            columns = [[] for _ in edges[1:]]
            yield [item]
        else:
            for column, piece in pieces:
                columns[column].append(piece)
    yield from filter(None, columns)


def _ordered(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: -(item.y1 if isinstance(item, _Line) else item[3]))


def _divided(
    item: Item, gutters: Sequence[tuple[float, float]], edges: Sequence[float]
) -> list[tuple[int, Item]] | None:
    """Return the parts of a line by column; None if something stands across a gutter."""
    if not isinstance(item, _Line):
        inside = [
            n for n, (left, right) in enumerate(pairwise(edges)) if item[0] >= left and item[2] <= right
        ]
        return [(inside[0], item)] if inside else None
    for left, right in gutters:
        middle = (left + right) / 2
        if any(word.x0 < middle < word.x1 for word in item.words):
            return None
        before = max((word.x1 for word in item.words if word.x1 <= middle), default=-1e9)
        behind = min((word.x0 for word in item.words if word.x0 >= middle), default=1e9)
        if behind - before < 0.8 * item.size:
            return None  # a space between two words
    pieces: list[tuple[int, Item]] = []
    for column, (left, right) in enumerate(pairwise(edges)):
        words = [word for word in item.words if left <= word.x0 < right]
        if words:
            pieces.append((column, _Line(words)))
    return pieces


def _gutters(lines: Sequence[_Line]) -> list[tuple[float, float]]:
    """Return the blank strips between columns of text; none for a single column. The text beside a strip
    fills its column as running text does, which cells of tables do not."""
    if len(lines) < 6:
        return []
    left, right = min(line.x0 for line in lines), max(line.x1 for line in lines)
    step = 2.0
    bins = int((right - left) / step) + 1
    covered = [0] * (bins + 1)
    for line in lines:
        for word in line.words:
            for place in range(int((word.x0 - left) / step), min(int((word.x1 - left) / step), bins) + 1):
                covered[place] += 1
    found = []
    start = None
    for place in range(int(bins * 0.15), int(bins * 0.85) + 2):
        is_blank = place <= bins * 0.85 and covered[place] <= len(lines) * 0.3
        if is_blank and start is None:
            start = place
        elif not is_blank and start is not None:
            strip = (left + (start - 0.5) * step, left + (place - 0.5) * step)
            least = min(covered[start:place])
            # Only strips that are blank all along, except for lines across, are between columns.
            narrow = [at for at in range(start, place) if covered[at] <= least + 1]
            strip = (left + narrow[0] * step, left + narrow[-1] * step)
            if strip[1] - strip[0] >= 6 and _is_between_columns(lines, strip, left, right):
                found.append(strip)
            start = None
    return found


def _is_between_columns(
    lines: Sequence[_Line], strip: tuple[float, float], left: float, right: float
) -> bool:
    middle = (strip[0] + strip[1]) / 2
    sides: list[list[tuple[float, int]]] = [[], []]
    for line in lines:
        if any(word.x0 < middle < word.x1 for word in line.words):
            continue
        for side in (0, 1):
            words = [word for word in line.words if (word.x0 > middle) == bool(side)]
            if words:
                near = _Line(words).cells()
                cell = near[-1] if side == 0 else near[0]
                sides[side].append((cell[-1].x1 - cell[0].x0, len(cell)))
    if any(len(side) < 5 for side in sides):
        return False
    for found in sides:
        widest = max(width for width, _ in found)
        full = sum(width > 0.75 * widest for width, _ in found)
        if full < 0.5 * len(found) or median(count for _, count in found) < 3:
            return False
    return True


# --- tables ---

type Table = tuple[float, float, float, float, list[list[Cell]]]


def _ruled_tables(rules: Sequence[Rule], words: Sequence[Word]) -> tuple[list[Table], list[Word]]:
    """Return tables by the lines drawn around their cells, and the words outside of them."""
    tables: list[Table] = []
    left = list(words)
    for group in _touching(rules[:MAX_RULES]):
        xs = _places([rule.x0 for rule in group if rule.x1 - rule.x0 < SNAP])
        ys = _places([rule.y0 for rule in group if rule.y1 - rule.y0 < SNAP])
        box = (
            min(rule.x0 for rule in group),
            min(rule.y0 for rule in group),
            max(rule.x1 for rule in group),
            max(rule.y1 for rule in group),
        )
        # Tables without lines at their sides.
        xs = _places([*xs, box[0], box[2]])
        ys = _places([*ys, box[1], box[3]])
        if len(xs) < 3 or len(ys) < 3 or len(xs) * len(ys) > 10_000:
            continue
        inside = [word for word in left if _is_in(word, box)]
        rows = _grid(xs, ys[::-1], group, inside)
        filled = [sum(bool(cell.text) for cell in row) for row in rows]
        if sum(map(bool, filled)) < 2 or max(filled) < 2:
            continue
        taken = {id(word) for word in inside}
        left = [word for word in left if id(word) not in taken]
        tables.append((*box, rows))
    return tables, left


def _is_in(word: Word, box: Box) -> bool:
    return box[0] - 1 <= (word.x0 + word.x1) / 2 <= box[2] + 1 and box[1] - 1 <= word.middle <= box[3] + 1


def _touching(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Return groups of lines that cross or meet."""
    groups: list[list[Rule]] = []
    boxes: list[Rule] = []
    for rule in rules:
        met = [
            number
            for number, box in enumerate(boxes)
            if rule.x0 <= box.x1 + SNAP
            and rule.x1 >= box.x0 - SNAP
            and rule.y0 <= box.y1 + SNAP
            and rule.y1 >= box.y0 - SNAP
            and any(
                rule.x0 <= other.x1 + SNAP
                and rule.x1 >= other.x0 - SNAP
                and rule.y0 <= other.y1 + SNAP
                and rule.y1 >= other.y0 - SNAP
                for other in groups[number]
            )
        ]
        group = [rule, *(other for number in met for other in groups[number])]
        for number in reversed(met):
            del groups[number], boxes[number]
        groups.append(group)
        boxes.append(
            Rule(
                min(one.x0 for one in group),
                min(one.y0 for one in group),
                max(one.x1 for one in group),
                max(one.y1 for one in group),
            )
        )
    return [group for group in groups if len(group) >= 4]


def _places(values: Sequence[float]) -> list[float]:
    places: list[float] = []
    for value in sorted(values):
        if not places or value - places[-1] > SNAP:
            places.append(value)
    return places


def _grid(
    xs: Sequence[float], ys: Sequence[float], rules: Sequence[Rule], words: Sequence[Word]
) -> list[list[Cell]]:
    """Return the cells from the top; `ys` fall. Cells that no line divides are one, whose text stands in each
    place."""
    columns, rows = len(xs) - 1, len(ys) - 1
    upright = [rule for rule in rules if rule.x1 - rule.x0 < SNAP]
    level = [rule for rule in rules if rule.y1 - rule.y0 < SNAP]

    def is_divided_below(row: int, column: int) -> bool:
        y, x = ys[row + 1], (xs[column] + xs[column + 1]) / 2
        return any(abs(rule.y0 - y) <= SNAP and rule.x0 - 1 <= x <= rule.x1 + 1 for rule in level)

    def is_divided_right(row: int, column: int) -> bool:
        x, y = xs[column + 1], (ys[row] + ys[row + 1]) / 2
        return any(abs(rule.x0 - x) <= SNAP and rule.y0 - 1 <= y <= rule.y1 + 1 for rule in upright)

    owner = {(row, column): (row, column) for row in range(rows) for column in range(columns)}

    def root(cell: tuple[int, int]) -> tuple[int, int]:
        while owner[cell] != cell:
            cell = owner[cell]
        return cell

    for row in range(rows):
        for column in range(columns):
            if column + 1 < columns and not is_divided_right(row, column):
                owner[root((row, column + 1))] = root((row, column))
            if row + 1 < rows and not is_divided_below(row, column):
                owner[root((row + 1, column))] = root((row, column))
    held: dict[tuple[int, int], list[Word]] = {}
    for word in words:
        column = sum((word.x0 + word.x1) / 2 >= x for x in xs[1:-1])
        row = sum(word.middle <= y for y in ys[1:-1])
        held.setdefault(root((row, column)), []).append(word)
    cells = {place: Cell(_flowing(_lines(inside))[0], _box_of(inside)) for place, inside in held.items()}
    return [[cells.get(root((row, column)), Cell()) for column in range(columns)] for row in range(rows)]


def _box_of(words: Sequence[Word]) -> Box:
    return (
        min(word.x0 for word in words),
        min(word.y0 for word in words),
        max(word.x1 for word in words),
        max(word.y1 for word in words),
    )


def around(boxes: Sequence[Box | None]) -> Box | None:
    """Return the box around all boxes; None without any."""
    found = [box for box in boxes if box is not None]
    if not found:
        return None
    lefts, lowers, rights, uppers = zip(*found, strict=True)
    return min(lefts), min(lowers), max(rights), max(uppers)


def _aligned_table(lines: Sequence[_Line]) -> tuple[int, list[list[Cell]]]:
    """Return the table that begins with the first line, set with spaces alone: how many lines it takes, 0 if
    it is not a table, and its rows. Names of several columns, in lines above the others, are part of the
    names of each."""
    for height in range(min(MAX_HEADS, len(lines)) - 1, 0, -1):
        if not _may_be_head(lines, height):
            continue
        taken, rows, spans = _plain_table(lines[height:])
        if len(rows) < 2:
            continue
        below = [(cell.box[0], cell.box[2]) if cell.box else None for cell in rows[0]]
        over = [_over(line, TableColumns(spans, below)) for line in lines[:height]]
        named = _named([*over, rows[0]])
        if all(over) and all(cell.text for cell in named[1:]):
            return height + taken, [named, *rows[1:]]
    taken, rows, _ = _plain_table(lines)
    return taken, _with_whole_names(rows)


def _may_be_head(lines: Sequence[_Line], height: int) -> bool:
    """Return whether the first lines may stand above the names of columns, which are the next one: the line
    below it has numbers."""
    if len(lines) < height + 2 or any(line.is_hanging or line.contents for line in lines[: height + 2]):
        return False
    pitches = [above.y0 - below.y0 for above, below in pairwise(lines[: height + 2])]
    is_close = max(pitches) <= 2 * lines[0].size
    if len(lines[0].cells()) == 1:  # a caption would stand apart
        is_close = height == 1 and pitches[0] <= 1.05 * pitches[1]
    names, numbers = (line.cells() for line in lines[height : height + 2])
    return is_close and len(names) > 1 and is_head_above(map(_text, names), map(_text, numbers))


def _over(line: _Line, columns: TableColumns) -> list[Cell]:
    """Return a row whose cells are repeated in the columns that they stand over; none if it is another
    row."""
    cells = line.cells()
    groups = groups_over([(cell[0].x0, cell[-1].x1) for cell in cells], columns)
    row = [Cell()] * len(columns.spans)
    for cell, group in zip(cells, groups, strict=bool(groups)):
        for column in group:
            row[column] = Cell(_text(cell), _box_of(cell))
    return row if groups else []


def _named(heads: Sequence[Sequence[Cell]]) -> list[Cell]:
    """Return the names of columns from the rows of a head."""
    texts = joined_names([[cell.text for cell in head] for head in heads])
    return [
        Cell(text, around([head[at].box for head in heads if at < len(head)]))
        for at, text in enumerate(texts)
    ]


def _with_whole_names(rows: list[list[Cell]]) -> list[list[Cell]]:
    """Return a table whose names go on in its second row, as "Net weight" may, above numbers, with its head
    in one."""
    if len(rows) < 3 or rows[1][0].text:
        return rows
    names, more, body = ([cell.text for cell in row] for row in rows[:3])
    goes_on = [
        (name, is_head_above([below], [number]))
        for name, below, number in zip(names, more, body, strict=True)
        if below
    ]
    if not goes_on or not is_names(names) or not all(map(all, goes_on)):
        return rows
    return [[_joined_cells(*cells) for cells in zip(*rows[:2], strict=True)], *rows[2:]]


def _text(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)


def _plain_table(
    lines: Sequence[_Line],
) -> tuple[int, list[list[Cell]], Sequence[tuple[float, float]]]:
    """Return the table that begins with the first line, whose cells have a column each, as _aligned_table
    does, and the places of its columns."""
    run: list[list[list[Word]]] = []
    columns: list[tuple[float, float]] = []
    for number, line in enumerate(lines):
        if line.is_hanging or line.contents:
            break
        if number and lines[number - 1].y0 - line.y1 > 2.0 * line.size:
            break
        cells = line.cells()
        spans = [(cell[0].x0, cell[-1].x1) for cell in cells]
        if len(cells) < 2:
            over = [one for one in columns if spans[0][0] < one[1] and spans[0][1] > one[0]]
            # A cell alone in its row, or one that continues.
            if not run or len(over) != 1 or not _is_cell_like(line, columns, over[0]):
                break
        merged = _joined([*columns, *spans])
        if run and len(merged) < max(2, len(columns)):
            break
        columns = merged
        run.append(cells)
    while run and len(run[-1]) < 2:
        run.pop()
    wide = sum(len(cells) >= 2 for cells in run)
    if wide < 2 or (wide < 3 and len(columns) < 3) or len(columns) < 2:
        return 0, [], []
    rows: list[list[Cell]] = []
    pitches = [above.y0 - below.y0 for above, below in pairwise(lines[: len(run)])]
    pitch = median(pitches) if pitches else 0.0
    for number, cells in enumerate(run):
        row = [Cell()] * len(columns)
        for cell in cells:
            place = next(n for n, one in enumerate(columns) if cell[0].x0 < one[1] and cell[-1].x1 > one[0])
            row[place] = _joined_cells(row[place], Cell(_text(cell), _box_of(cell)))
        goes_on = number > 0 and not row[0].text and len(cells) == 1 and pitches[number - 1] <= pitch * 0.85
        if goes_on:
            rows[-1] = [_joined_cells(above, below) for above, below in zip(rows[-1], row, strict=True)]
        else:
            rows.append(row)
    texts = [[cell.text for cell in row] for row in rows]
    if is_hanging(texts, _following(lines, len(run), columns[-1][0])):
        for line in lines[: len(run)]:
            line.is_hanging = True
        return 0, [], []
    return len(run), rows, columns


def _joined_cells(above: Cell, below: Cell) -> Cell:
    if above.box is None or below.box is None:
        return above if below.box is None else below
    is_cut = CUT_WORD.search(above.text) and below.text[:1].islower()
    text = above.text[:-1] + below.text if is_cut else f"{above.text} {below.text}"
    return Cell(
        text,
        (
            min(above.box[0], below.box[0]),
            min(above.box[1], below.box[1]),
            max(above.box[2], below.box[2]),
            max(above.box[3], below.box[3]),
        ),
    )


def _following(lines: Sequence[_Line], at: int, left: float) -> str:
    """Return the text of a line if it stands right below the one before it and begins at `left`."""
    if at >= len(lines):
        return ""
    line = lines[at]
    is_close = lines[at - 1].y0 - line.y1 <= 0.6 * line.size
    return line.text if is_close and abs(line.x0 - left) < 0.5 * line.size else ""


def _is_cell_like(line: _Line, columns: Sequence[tuple[float, float]], over: tuple[float, float]) -> bool:
    """Return whether a line of one cell is part of a table: it is as narrow as its column, which is not the
    last, where text would begin."""
    return line.x1 <= over[1] + 2 * line.size and line.x1 - line.x0 <= max(over[1] - over[0], 8 * line.size)


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the spans with overlapping ones joined."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if joined and begin < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


# --- blocks ---


def _region_blocks(items: Sequence[Item], tables: Sequence[Table], style: Style) -> Iterator[Block]:
    by_box: Mapping[tuple[float, ...], list[list[Cell]]] = {table[:4]: table[4] for table in tables}
    lines: list[_Line] = []
    for item in items:
        if isinstance(item, _Line):
            lines.append(item)
            continue
        yield from _line_blocks(lines, style)
        lines = []
        yield Block(rows=by_box[item])
    yield from _line_blocks(lines, style)


def _line_blocks(lines: Sequence[_Line], style: Style) -> Iterator[Block]:
    at = 0
    pitches = [above.y0 - below.y0 for above, below in pairwise(lines) if abs(above.size - below.size) < 1]
    pitch = median(pitches) if pitches else 0.0
    left = min((line.x0 for line in lines), default=0.0)
    right = max((line.x1 for line in lines), default=0.0)
    while at < len(lines):
        line = lines[at]
        if line.mono:
            end = at + 1
            while (
                end < len(lines) and lines[end].mono and lines[end - 1].y0 - lines[end].y1 < 2.5 * line.size
            ):
                end += 1
            if end - at > 1 or line.x0 > left:
                code, starts = _code(lines[at:end])
                yield Block(code, code=True, lines=starts)
                at = end
                continue
        taken, rows = _aligned_table(lines[at:])
        if taken:
            yield Block(
                rows=[
                    [cell._replace(text=_LEADER.sub("", cell.text).strip()) for cell in row] for row in rows
                ]
            )
            at += taken
            continue
        level = _level(lines, at, style)
        end = at + 1
        if level:
            while (
                end < len(lines)
                and end - at < 4
                and _level(lines, end, style) == level
                and _is_close(lines, end)
            ):
                end += 1
            title, starts = "", []
            for one in lines[at:end]:
                title += " " if title else ""
                starts.append((len(title), one.box))
                title += one.text
            yield Block(title, level, lines=starts)
        else:
            while end < len(lines) and not _begins(lines, end, left, right, pitch, style):
                end += 1
            text, starts = _flowing(lines[at:end], right)
            yield Block(text, lines=starts)
        at = end


def _level(lines: Sequence[_Line], at: int, style: Style) -> int:
    """Return the level of a heading, 0 for text: a heading is larger than the text, or bold, short and
    alone."""
    line = lines[at]
    if len(line.text) > 200 or not any(map(str.isalpha, line.text)) or line.contents:
        return 0
    if line.size >= style.body_size * 1.12:
        larger = [size for size in style.heading_sizes if size > line.size * 1.03]
        return min(len(larger) + 1, 6)
    if not line.bold or len(line.text) > 100 or line.text.endswith((".", ",", ";")):
        return 0
    is_above_apart = at == 0 or lines[at - 1].y0 - line.y1 > 0.35 * line.size or lines[at - 1].bold
    is_below_other = at + 1 == len(lines) or not lines[at + 1].bold or lines[at + 1].size != line.size
    return min(len(style.heading_sizes) + 1, 6) if is_above_apart and is_below_other else 0


def _is_close(lines: Sequence[_Line], at: int) -> bool:
    above, line = lines[at - 1], lines[at]
    return abs(above.size - line.size) < 1 and above.y0 - line.y1 < 0.6 * line.size


def _begins(lines: Sequence[_Line], at: int, left: float, right: float, pitch: float, style: Style) -> bool:
    """Return whether a line begins a block of its own; `pitch` is the usual distance of lines."""
    above, line = lines[at - 1], lines[at]
    if line.y1 > above.y0 + line.size and line.y0 > above.y1:
        return True  # another column
    is_apart = above.y0 - line.y0 > 1.25 * pitch and above.y0 - line.y1 > 0.25 * line.size
    if is_apart or abs(above.size - line.size) > 0.15 * line.size:
        return True
    if line.mono and not above.mono:
        return True
    if _level(lines, at, style) or _aligned_table(lines[at:])[0]:
        return True
    is_indented = line.x0 - left > line.size and abs(above.x0 - left) < 1
    is_above_short = above.x1 < right - 0.15 * (right - left)
    return (
        is_indented and is_above_short and above.text.endswith(_ENDS) and not BULLET.match(line.words[0].text)
    )


def _flowing(lines: Sequence[_Line], right: float = 0.0) -> tuple[str, list[tuple[int, Box]]]:
    """Return lines as running text, with divided words joined and the author's line ends kept, and where each
    begins in it and is on the page."""
    text = ""
    starts: list[tuple[int, Box]] = []
    left = min((line.x0 for line in lines), default=0.0)
    for number, line in enumerate(lines):
        added = line.contents or " ".join(
            word.text for word in line.words if not _LEADER.fullmatch(word.text)
        )
        if not text:
            pass
        elif _begins_line(line, lines[number - 1]):
            text += "\n"
        elif CUT_WORD.search(text) and added[:1].islower():
            text = text[:-1]
        elif right and lines[number - 1].x1 < right - 0.3 * (right - left):
            text += "\n"
        else:
            text += " "
        starts.append((len(text), line.box))
        text += added
    return text, starts


def _begins_line(line: _Line, above: _Line) -> bool:
    is_bullet = BULLET.match(line.words[0].text) and len(line.words) > 1
    return bool(is_bullet or above.contents) or _is_item(line, above)


def _is_item(line: _Line, above: _Line) -> bool:
    """Return whether a line begins an item of a list, whose text hangs beside its mark or term as the line
    above does."""
    cells, before = line.cells(), above.cells()
    if len(cells) < 2:
        return False
    is_beside = len(before) > 1 and abs(above.x0 - line.x0) < 0.5 * line.size
    return abs(cells[1][0].x0 - before[int(is_beside)][0].x0) < 0.5 * line.size


def _code(lines: Sequence[_Line]) -> tuple[str, list[tuple[int, Box]]]:
    """Return code with the spaces that the places of its words show, and its lines as _flowing does."""
    widths = [(word.x1 - word.x0) / len(word.text) for line in lines for word in line.words]
    width = median(widths) or 1.0
    left = min(line.x0 for line in lines)
    code = ""
    starts: list[tuple[int, Box]] = []
    for number, line in enumerate(lines):
        if number:
            code += "\n\n" if lines[number - 1].y0 - line.y1 > 0.9 * line.size else "\n"
        starts.append((len(code), line.box))
        text = ""
        for word in line.words:
            place = round((word.x0 - left) / width)
            text += " " * max(place - len(text), 1 if text else 0) + word.text
        code += text
    return code, starts
