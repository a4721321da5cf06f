"""The part of a text that is shown of it."""

import re
from collections import Counter
from typing import Final

__all__ = ["shortened", "snippet"]

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?:]\s+|\n")

_MIN_WORD_CHARACTERS: Final = 3
_MAX_WORDS: Final = 32
"""Words of a question that are looked for."""

_LEAD_CHARACTERS: Final = 100
"""How far before the first word that was found a snippet may begin, to begin with a sentence."""


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning up to a word's end with an ellipsis, at most `limit` code points."""
    text = text.strip()
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    if not text[limit - 1].isspace() and any(character.isspace() for character in cut):
        cut = cut.rsplit(maxsplit=1)[0]
    return cut.rstrip() + "…"


def snippet(text: str, query: str, limit: int) -> str:
    """The text, or the part of it where most of the question's words stand, at most `limit` code points.

    A word counts by its rarity in the text, each once; the earliest of equal parts is taken. An ellipsis
    stands where something is left out.
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    found = _found(text, query)
    rarity = {word: 1 / count for word, count in Counter(word for _, word in found).items()}
    within = limit - _LEAD_CHARACTERS
    best = sum(rarity[word] for word in {word for position, word in found if position < within})
    start = 0
    for index, (first, _) in enumerate(found):
        words = {word for position, word in found[index:] if position < first + within}
        if (weight := sum(map(rarity.__getitem__, words))) > best:
            best, start = weight, first
    if start == 0:
        return shortened(text, limit)
    return "…" + shortened(text[_beginning(text, start) :], limit - 1)


def _found(text: str, query: str) -> list[tuple[int, str]]:
    """Where words of the text begin with a word of the question, at most the first 200 places."""
    words = dict.fromkeys(
        word for word in map(str.lower, _WORD.findall(query)) if len(word) >= _MIN_WORD_CHARACTERS
    )
    if not words:
        return []
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, list(words)[:_MAX_WORDS]))})", re.IGNORECASE)
    places = ((match.start(), match.group().lower()) for match in pattern.finditer(text))
    return [place for place, _ in zip(places, range(200), strict=False)]


def _beginning(text: str, position: int) -> int:
    """Where the sentence of a position begins, or a word, at most `_LEAD_CHARACTERS` before."""
    earliest = max(0, position - _LEAD_CHARACTERS)
    ends = [match.end() for match in _SENTENCE_END.finditer(text, earliest, position)]
    if ends:
        return ends[-1]
    space = text.find(" ", earliest, position)
    return position if space < 0 else space + 1
