"""Snippets of texts."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"\w+")
_SENTENCE_END: Final = re.compile(r"[.!?:]\s+|\n")

_MIN_WORD_CHARACTERS: Final = 3
_MAX_WORDS: Final = 32
"""Maximum words of a question that are searched for."""

_MAX_PLACES: Final = 200

_LEAD_CHARACTERS: Final = 100
"""Maximum characters that a snippet may begin before the first word found, to begin with a sentence."""


def shortened(text: str, limit: int) -> str:
    """Return the text, or its beginning up to a word's end with an ellipsis, at most `limit` code points."""
    text = text.strip()
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    if not text[limit - 1].isspace() and any(character.isspace() for character in cut):
        cut = cut.rsplit(maxsplit=1)[0]
    return cut.rstrip() + "…"


def snippet(text: str, query: str, limit: int) -> str:
    """Return the text, or the part of it with most of the question's words, at most `limit` code points.

    A word counts by its rarity in the text, each once; the earliest of equal parts is taken. An ellipsis
    marks an omission.
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    found = _found(text, query)
    if not found:
        return shortened(text, limit)
    rarity = {word: 1 / count for word, count in Counter(word for _, word in found).items()}
    within = limit - _LEAD_CHARACTERS
    positions = [position for position, _ in found]

    def weight(begin: int, end_position: int) -> float:
        end = bisect_left(positions, end_position, lo=begin)
        return sum(map(rarity.__getitem__, {word for _, word in found[begin:end]}))

    best, start = weight(0, within), 0
    for index, first in enumerate(positions):
        if (found_here := weight(index, first + within)) > best:
            best, start = found_here, first
    if start == 0:
        return shortened(text, limit)
    return "…" + shortened(text[_beginning(text, start) :], limit - 1)


def _found(text: str, query: str) -> list[tuple[int, str]]:
    """Return the offsets of words that begin with a word of the question, at most the first 200.

    Only the first 200 occurrences of each word count, those inside of other words included.
    """
    lowered = _lowered(text)
    places: dict[int, str] = {}
    for word in _words(query):
        place = -1
        for _ in range(_MAX_PLACES):
            place = lowered.find(word, place + 1)
            if place < 0:
                break
            if place == 0 or not _is_of_word(lowered[place - 1]):
                places.setdefault(place, word)
    return sorted(places.items())[:_MAX_PLACES]


@lru_cache(maxsize=256)
def _words(query: str) -> Sequence[str]:
    """Return the words to search for. All snippets of a list are made for one question."""
    words = (word for word in _WORD.findall(_lowered(query)) if len(word) >= _MIN_WORD_CHARACTERS)
    return list(dict.fromkeys(words))[:_MAX_WORDS]


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _lowered(text: str) -> str:
    """Lower each character in its place: this is the only letter whose lower case is two."""
    return text.replace("İ", "i").lower()


def _beginning(text: str, position: int) -> int:
    """Return where the sentence around an offset begins, or a word, at most `_LEAD_CHARACTERS` before."""
    earliest = max(0, position - _LEAD_CHARACTERS)
    ends = [match.end() for match in _SENTENCE_END.finditer(text, earliest, position)]
    if ends:
        return ends[-1]
    space = text.find(" ", earliest, position)
    return position if space < 0 else space + 1
