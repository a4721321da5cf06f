"""Lists, tables and code that a sentence leads to with its colon, and the sentence that leads to an item."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from groundline_generator.domain.quoting.candidates import Candidate
from groundline_generator.domain.segments import Kind

_MOST_QUOTED: Final = 12
"""Maximum number of sentences, rows and pieces of code that are quoted behind a colon."""

_BULLET: Final = re.compile(r"\n[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+$")
"""The text between the first sentence of an item and the sentence before it."""

_ASKED: Final = re.compile(
    r"^\W*(?:(?:what|which)\s+(?:are|(?:[\w-]+\s+){1,3}(?:are|do|does|can|must|should|may))|welche|was\s+sind)\b",
    re.IGNORECASE,
)
"""A question for several things."""

_BLANK: Final = re.compile(r"\n[ \t]*\n")


def led_to(
    query: str, leading: Candidate, ranked: Sequence[Candidate], text: str
) -> Sequence[tuple[Candidate, int]]:
    """Return what follows a sentence that ends with a colon in its passage, which says `text`: the list, the
    table, the code, or the next sentence.

    Without a colon it is the list that follows, if the question asks for several things.

    Each sentence, row or piece of code comes with the place of its item in the list, counted from 1; code
    has 0. Empty for another sentence, or if nothing of that kind follows.
    """
    has_colon = leading.sentence.text.rstrip("*_ ").endswith(":")
    if leading.sentence.segment.kind is not Kind.SENTENCE or not (has_colon or _ASKED.search(query)):
        return ()
    here = _in_passage(leading, ranked)
    first = leading.position + 1
    # The header of a table is not among the ranked.
    if first not in here and first + 1 in here and here[first + 1].sentence.segment.columns:
        first += 1
    following = here.get(first)
    if has_colon and following is not None and _is_announced(leading, following, text):
        return ((following, 0),)
    behind: list[tuple[Candidate, int]] = []
    item, end = 0, leading.sentence.segment.end
    for position in range(first, first + _MOST_QUOTED):
        each = here.get(position)
        if each is None:
            break
        between = text[end : each.sentence.segment.start]
        is_item = _BULLET.search(between) is not None
        if not (has_colon or is_item) or not _goes_on(behind[0][0] if behind else None, each, between):
            break
        if is_item or each.sentence.segment.kind is Kind.ROW:
            item += 1
        behind.append((each, item))
        end = each.sentence.segment.end
    return behind


def _is_announced(leading: Candidate, following: Candidate, text: str) -> bool:
    """Tell whether a sentence, and no list, is right behind a colon."""
    is_sentence = following.sentence.segment.kind is Kind.SENTENCE and _is_same_heading(leading, following)
    return is_sentence and not _is_item(following, leading.sentence.segment.end, text)


def _goes_on(first: Candidate | None, each: Candidate, between: str) -> bool:
    """Tell whether a sentence is of the list, table or code that begins with the first one."""
    segment = each.sentence.segment
    if first is None:
        return segment.kind in (Kind.CODE, Kind.ROW) or _BULLET.search(between) is not None
    if not _is_same_heading(each, first):
        return False
    if first.sentence.segment.kind in (Kind.CODE, Kind.ROW) or segment.kind is Kind.ROW:
        return segment.kind is first.sentence.segment.kind and not _BLANK.search(between)
    return segment.kind is Kind.CODE or _BULLET.search(between) is not None or not _BLANK.search(between)


def lead_in(item: Candidate, ranked: Sequence[Candidate], text: str) -> Candidate | None:
    """Return the sentence before a list whose item says nothing alone, since it begins in the middle of a
    sentence."""
    if not item.sentence.text[:1].islower():
        return None
    here = _in_passage(item, ranked)
    for position in range(item.position, max(item.position - _MOST_QUOTED, 0), -1):
        each, before = here.get(position), here.get(position - 1)
        if each is None or before is None or not _is_same_heading(each, before):
            return None
        if not _is_item(each, before.sentence.segment.end, text):
            return None
        end = here[position - 2].sentence.segment.end if position - 2 in here else 0
        if not _is_item(before, end, text):
            return before
    return None


def _in_passage(candidate: Candidate, ranked: Sequence[Candidate]) -> Mapping[int, Candidate]:
    """Return what is ranked of a candidate's passage, by its position."""
    return {each.position: each for each in ranked if each.passage == candidate.passage}


def _is_item(each: Candidate, end: int, text: str) -> bool:
    """Tell whether a bullet or a number stands before a sentence, behind the one that ends at `end`."""
    return _BULLET.search(text[end : each.sentence.segment.start]) is not None


def _is_same_heading(each: Candidate, other: Candidate) -> bool:
    return each.sentence.segment.heading == other.sentence.segment.heading
