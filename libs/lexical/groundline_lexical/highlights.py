"""Words of a query in the texts that it found, and the part of a text that shows most of them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from groundline_lexical.text import UNSPACED, marked_word
from groundline_lexical.words import searched_terms

MAX_MATCHES: Final = 200
"""Maximum matches in a text: the first ones."""

LEAD_CHARACTERS: Final = 80
"""Maximum characters that a snippet may begin before the first match, to begin with a sentence or a word."""

_SENTENCE_END: Final = re.compile(r"[.!?:]\s+|\n")
_SPACE: Final = re.compile(r"\s")
_ASCII_WORD: Final = re.compile(r"\w+")
_CACHED_WORDS: Final = 2**15


class Match(NamedTuple):
    """A word of a text, or some characters of a script without spaces, by its offsets in code points."""

    start: int
    end: int
    word: str


def matches(text: str, queries: Iterable[str], language: str) -> list[Match]:
    """Return where a text has words of the queries, as keyword search compares them: by stems of the
    language, without stop words, also by a part of a name such as `leaseSeconds`."""
    terms = frozenset(term for query in queries for term in searched_terms(query, language))
    found: list[Match] = []
    if terms:
        for match in _matches(text, terms, language):
            if len(found) == MAX_MATCHES:
                break
            found.append(match)
    return found


def snippet_span(text: str, found: Sequence[Match], limit: int) -> tuple[int, int]:
    """Return the offsets of the part of a text, `limit` code points at most, with most of the words found.

    A word counts by its rarity in the text, each once; the earliest of equal parts is taken. Without words it
    is the beginning.
    """
    first = len(text) - len(text.lstrip())
    last = len(text.rstrip())
    if last - first <= limit:
        return first, max(first, last)
    shown = _densest(found, limit - LEAD_CHARACTERS) if found else first
    start = max(first, min(_beginning(text, shown, first), last - limit))
    if start > first and not text[start - 1].isspace():
        space = _SPACE.search(text, start, shown)
        start = space.end() if space else start
    end = min(start + limit, last)
    if end < last and not text[end].isspace():
        end = max((space.start() for space in _SPACE.finditer(text, start, end)), default=end)
    return start, start + len(text[start:end].rstrip())


def _matches(text: str, terms: frozenset[int], language: str) -> Iterator[Match]:
    for word in (_ASCII_WORD if text.isascii() else marked_word()).finditer(text):
        if not word[0].isascii() and UNSPACED.search(word[0]):
            yield from _unspaced(word, terms, language)
        else:
            yield from _plain(text, word.start(), word.end(), terms, language)


def _unspaced(word: re.Match[str], terms: frozenset[int], language: str) -> Iterator[Match]:
    """Yield what matches of a word with a script without spaces: of that script pairs of characters, joined
    where they touch, beside it words."""
    start = word.start()
    for run in UNSPACED.finditer(word.string, word.start(), word.end()):
        yield from _plain(word.string, start, run.start(), terms, language)
        begin = end = -1
        for at in range(run.start(), run.end()):
            parts = (word.string[at : min(at + length, run.end())] for length in (2, 1))
            part = next((part for part in parts if not terms.isdisjoint(_terms(part, language))), "")
            if not part:
                continue
            if at > end >= 0:
                yield Match(begin, end, word.string[begin:end])
            begin = at if at > end else begin
            end = at + len(part)
        if end >= 0:
            yield Match(begin, end, word.string[begin:end])
        start = run.end()
    yield from _plain(word.string, start, word.end(), terms, language)


def _plain(text: str, start: int, end: int, terms: frozenset[int], language: str) -> Iterator[Match]:
    if start < end and not terms.isdisjoint(_terms(text[start:end], language)):
        yield Match(start, end, text[start:end].lower())


@lru_cache(_CACHED_WORDS)
def _terms(word: str, language: str) -> frozenset[int]:
    return frozenset(searched_terms(word, language))


def _densest(found: Sequence[Match], within: int) -> int:
    """Return the start of the first match of the best part."""
    rarity = {word: 1 / count for word, count in Counter(match.word for match in found).items()}

    def weight(first: Match) -> float:
        end = first.start + within
        return sum(rarity[word] for word in {each.word for each in found if first.start <= each.start < end})

    return max(found, key=weight).start


def _beginning(text: str, position: int, first: int) -> int:
    """Return where the sentence around an offset begins, or a word, at most LEAD_CHARACTERS before."""
    earliest = max(first, position - LEAD_CHARACTERS)
    if earliest == first:
        return first
    ends = [match.end() for match in _SENTENCE_END.finditer(text, earliest, position)]
    if ends:
        return ends[-1]
    space = _SPACE.search(text, earliest, position)
    return space.end() if space else position
