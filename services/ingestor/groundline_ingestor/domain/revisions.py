"""Comparison of texts of a document's revisions."""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from groundline.v1 import document_pb2
from rapidfuzz.distance import Indel

MAX_LINES: Final = 20_000
"""Maximum lines of a text that is compared as a whole. A bit is computed for each pair of lines, in one piece
of a quarter of a second at most, for which nothing else of the process runs."""

_EQUAL: Final = document_pb2.TEXT_CHANGE_EQUAL
_DELETED: Final = document_pb2.TEXT_CHANGE_DELETED
_INSERTED: Final = document_pb2.TEXT_CHANGE_INSERTED

_SAME: Final = document_pb2.TEXT_FATE_SAME
_MOVED: Final = document_pb2.TEXT_FATE_MOVED
_CHANGED: Final = document_pb2.TEXT_FATE_CHANGED
_GONE: Final = document_pb2.TEXT_FATE_GONE

_WORD: Final = re.compile(r"\w+")
_TOKEN: Final = re.compile(r"\s+|\w+|[^\w\s]")
_SENTENCE_END: Final = re.compile(r"[.!?;:]\s|\n")
_SENTENCE_CHARACTERS: Final = 300
"""How far the text around what was found again is looked at, in characters, for the end of its sentence."""

_SEARCHED_CHARACTERS: Final = 2_000_000
"""How far before and behind its place something like a text is looked for, in characters; the text itself is
found anywhere."""

_NEAR_CHARACTERS: Final = 10_000
"""How far it is looked for at first: where lines are alike, more of another's words may stand far away."""

_SHINGLE_WORDS: Final = 3
_LEAST_SHARE: Final = 0.5
"""Share of the characters of the longer of two texts that both have, from which on one is the other,
changed."""

_FAR: Final = 2
"""Multiple of equal words' characters that part them from the rest, so that they are another place's."""

_REFINED_TOKENS: Final = 4000
"""Maximum tokens of replaced lines that are compared word by word."""

_SHOWN_EQUAL: Final = 600
"""Characters that are shown of a stretch that two whole texts have in common."""

_OCCURRENCES: Final = 1000

type Stretch = tuple[document_pb2.TextChange.ValueType, str]


@dataclass(frozen=True, slots=True)
class TextComparison:
    """Fate of a text, where it is in the other, and both in stretches."""

    fate: document_pb2.TextFate.ValueType
    start: int
    end: int
    stretches: Sequence[Stretch]


def compare_part(part: str, start: int, other: str) -> TextComparison:
    """Find a part of a text, which begins at `start`, in another text."""
    end = start + len(part)
    if other[start:end] == part:
        return TextComparison(_SAME, start, end, [(_EQUAL, part)])
    if (found := find_nearest(part, start, other)) is not None:
        return moved_part(part, found)
    for reach in (_NEAR_CHARACTERS, _SEARCHED_CHARACTERS):
        if (changed := _changed_part(part, start, other, reach)) is not None:
            return changed
    return TextComparison(_GONE, 0, 0, [(_DELETED, part)])


def _changed_part(part: str, start: int, other: str, reach: int) -> TextComparison | None:
    """Find something like a part within `reach` characters of its place; None if nothing is."""
    begin = max(0, start - reach)
    first, last = _likeliest(part, other[begin : start + len(part) + reach])
    first, last = begin + first, begin + last
    stretches = list(_merged(_compared(_TOKEN.findall(part), _TOKEN.findall(other[first:last]))))
    # The text around it in the other does not belong to it.
    first += _trim(stretches)
    stretches.reverse()
    last -= _trim(stretches)
    stretches.reverse()
    common = sum(len(text.strip()) for change, text in stretches if change == _EQUAL)
    is_alike = common >= _LEAST_SHARE * max(len(part), last - first)
    return TextComparison(_CHANGED, first, last, list(_merged(iter(stretches)))) if is_alike else None


def _trim(stretches: list[Stretch]) -> int:
    """Leave out what begins with text of the other alone, also behind equal words that are far from the rest,
    which are then gone; return how many characters of the other that are."""
    trimmed = 0
    gone: list[Stretch] = []
    while stretches:
        change, text = stretches[0]
        is_far = change == _EQUAL and stretches[1:] and stretches[1][0] == _INSERTED
        if is_far and len(stretches[1][1]) > _FAR * len(text):
            gone.append((_DELETED, text))
        elif change != _INSERTED:
            break
        trimmed += len(text)
        del stretches[0]
    stretches[:0] = gone
    return trimmed


def moved_part(part: str, start: int) -> TextComparison:
    """Return the comparison of a part that stands elsewhere, as it was."""
    return TextComparison(_MOVED, start, start + len(part), [(_EQUAL, part)])


def compare_texts(text: str, other: str) -> TextComparison:
    """Compare whole texts of MAX_LINES lines at most, line by line, and replaced lines word by word."""
    if text == other:
        return TextComparison(_SAME, 0, len(other), [(_EQUAL, _shortened(text))])
    stretches = _refined(_compared(text.splitlines(keepends=True), other.splitlines(keepends=True)))
    shown = [(change, _shortened(each) if change == _EQUAL else each) for change, each in _merged(stretches)]
    return TextComparison(_CHANGED, 0, len(other), shown)


def find_nearest(part: str, start: int, other: str) -> int | None:
    """Return where a text stands in another, nearest to where it stood; None if it does not."""
    if not part:
        return None
    places = islice(_places(part, other), _OCCURRENCES)
    return min(places, key=lambda place: abs(place - start), default=None)


def _places(part: str, other: str) -> Iterator[int]:
    place = other.find(part)
    while place >= 0:
        yield place
        place = other.find(part, place + 1)


def _likeliest(part: str, other: str) -> tuple[int, int]:
    """Return the stretch of a text that has most of another's shingles of words, to the ends of its
    sentences; an empty one if it has none."""
    words = [match[0].lower() for match in _WORD.finditer(part)]
    size = min(_SHINGLE_WORDS, len(words))
    if not size:
        return 0, 0
    wanted = Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1))
    reach = len(part) + len(part) // 2 + _SENTENCE_CHARACTERS
    window: deque[tuple[int, int, tuple[str, ...]]] = deque()
    counts: Counter[tuple[str, ...]] = Counter()
    best, best_range, matched = 0, (0, 0), 0
    recent: deque[re.Match[str]] = deque(maxlen=size)
    for match in _WORD.finditer(other):
        recent.append(match)
        shingle = tuple(each[0].lower() for each in recent)
        if shingle not in wanted:
            continue
        window.append((recent[0].start(), match.end(), shingle))
        counts[shingle] += 1
        matched += counts[shingle] <= wanted[shingle]
        # Drop what is too far behind, and what the stretch has enough of where all lines are alike.
        while match.end() - window[0][0] > reach or counts[window[0][2]] > wanted[window[0][2]]:
            *_, gone = window.popleft()
            matched -= counts[gone] <= wanted[gone]
            counts[gone] -= 1
        if matched > best:
            best, best_range = matched, (window[0][0], match.end())
    return _whole_sentences(other, *best_range) if best else (0, 0)


def _whole_sentences(text: str, start: int, end: int) -> tuple[int, int]:
    before = list(_SENTENCE_END.finditer(text, max(0, start - _SENTENCE_CHARACTERS), start))
    if before:
        start = before[-1].end()
    elif start <= _SENTENCE_CHARACTERS:
        start = 0
    after = _SENTENCE_END.search(text, end, end + _SENTENCE_CHARACTERS)
    if after:
        end = after.start() + 1
    elif len(text) - end <= _SENTENCE_CHARACTERS:
        end = len(text)
    return start, end


def _compared(first: Sequence[str], second: Sequence[str]) -> Iterator[Stretch]:
    """Yield the stretches of two sequences of strings, in their order."""
    for step in Indel.opcodes(first, second):
        if step.tag == "equal":
            yield _EQUAL, "".join(first[step.src_start : step.src_end])
        elif step.tag == "delete":
            yield _DELETED, "".join(first[step.src_start : step.src_end])
        else:
            yield _INSERTED, "".join(second[step.dest_start : step.dest_end])


def _refined(stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    """Compare deleted lines word by word with the inserted ones that stand in their place."""
    deleted, inserted = "", ""
    for change, text in stretches:
        if change == _EQUAL:
            yield from _replaced(deleted, inserted)
            deleted = inserted = ""
            yield change, text
        elif change == _DELETED:
            deleted += text
        else:
            inserted += text
    yield from _replaced(deleted, inserted)


def _replaced(deleted: str, inserted: str) -> Iterator[Stretch]:
    tokens = _TOKEN.findall(deleted), _TOKEN.findall(inserted)
    if all(0 < len(each) <= _REFINED_TOKENS for each in tokens):
        yield from _compared(*tokens)
        return
    if deleted:
        yield _DELETED, deleted
    if inserted:
        yield _INSERTED, inserted


def _merged(stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    """Join neighbours of one kind; between two common stretches the deleted comes before the inserted."""
    held = {_DELETED: "", _INSERTED: "", _EQUAL: ""}
    for change, text in stretches:
        if change == _EQUAL:
            if held[_DELETED] or held[_INSERTED]:
                yield from _told(held)
            held[_EQUAL] += text
        else:
            if held[_EQUAL]:
                yield _EQUAL, held[_EQUAL]
                held[_EQUAL] = ""
            held[change] += text
    yield from _told(held)


def _told(held: dict[document_pb2.TextChange.ValueType, str]) -> Iterator[Stretch]:
    for change in (_EQUAL, _DELETED, _INSERTED):
        if held[change]:
            yield change, held[change]
            held[change] = ""


def _shortened(text: str) -> str:
    half = _SHOWN_EQUAL // 2
    return text if len(text) <= _SHOWN_EQUAL else f"{text[:half]}…{text[-half:]}"
