"""Words of a query that may be misspelled, and the words of found passages that they may stand for.

No vocabulary is kept. Vector search finds passages for a query with a wrong letter as well, and what it found
may be read by the caller: a word of the query that none of them has is compared with theirs.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from groundline_lexical import UNSPACED, is_stop_word, searched_words

MAX_WORDS: Final = 32
"""Maximum words of a query that are looked at."""

MAX_SUSPECTS: Final = 3
"""Maximum words of a query that are corrected: of more, the query is about something else."""

MIN_CHARACTERS: Final = 4
TWO_MISTAKES: Final = 8
"""Characters from which on a word may have two mistakes instead of one."""

MAX_CHARACTERS: Final = 40

_ENDING: Final = 3
"""Letters at the end of a word of which several other ones are an ending, and no mistakes."""

_OF_QUESTIONS: Final = re.compile(
    r"wessen|womit|wofür|wodurch|supposed|allowed|permitted|forbidden|prohibited|banned|darf|dürfen|erlaubt"
    r"|gestattet|zulässig|verboten|untersagt",
    re.IGNORECASE,
)
"""Words by which questions ask, also for what may be done; no stop words, and in few documents."""

_CACHED_WORDS: Final = 2**14

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A word of the query that no passage has, as it was written, and the nearest word of the passages, with
    its capitals."""

    given: str
    used: str


def suspects(query: str, texts: Sequence[str], languages: Collection[str]) -> list[Suspect]:
    """Return the words of a query that no text has though one has a word like them.

    A word counts as had if its stem stands anywhere in the texts: so most queries end with a few searches of
    a string. Names with figures, short words, stop words and words of questions are left as they are. A word
    of fewer than 8 letters may have one mistake (a letter too many, too few, another, or two exchanged), a
    longer one two.
    """
    missing = {
        word: given
        for word, given in _words(query).items()
        if not is_stop_word(word) and not any(given in text for text in texts)
    }
    if not missing:
        return []
    lowered = "\n".join(texts).lower()
    unknown = {
        word: given
        for word, given in missing.items()
        if word not in lowered and not any(_stem(word, language) in lowered for language in languages)
    }
    nearest = ((given, _nearest(word, lowered, languages)) for word, given in unknown.items())
    found = [Suspect(given, _in_the_case_of(given, used)) for given, used in nearest if used]
    return found if len(found) <= MAX_SUSPECTS else []


def corrected(query: str, found: Sequence[Suspect]) -> str:
    """Return a query with the words used in place of those given."""
    used = {suspect.given.lower(): suspect.used for suspect in found}
    return _WORD.sub(lambda match: used.get(match[0].lower(), match[0]), query)


def distance_within(one: str, other: str, limit: int) -> int | None:
    """Return the number of mistakes between two words, None for more than `limit`: letters added, left out,
    replaced, and neighbours exchanged (Damerau's, each place changed once)."""
    if abs(len(one) - len(other)) > limit:
        return None
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        earlier, before, row = before, row, [at]
        for to, another in enumerate(other, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != another))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == another:
                cost = min(cost, earlier[to - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return None
    return row[-1] if row[-1] <= limit else None


def _in_the_case_of(given: str, used: str) -> str:
    """Return a word with capitals as the given one has them: by them names are recognised."""
    if given.isupper():
        return used.upper()
    return used[0].upper() + used[1:] if given[0].isupper() else used


def _words(query: str) -> Mapping[str, str]:
    """Return the words that may be misspelled, by their lower case."""
    words: dict[str, str] = {}
    for word in _WORD.findall(query)[:MAX_WORDS]:
        if _may_be_misspelled(word):
            words.setdefault(word.lower(), word)
    return words


def _may_be_misspelled(word: str) -> bool:
    is_word = MIN_CHARACTERS <= len(word) <= MAX_CHARACTERS and word.isalpha() and not UNSPACED.search(word)
    return is_word and not _OF_QUESTIONS.fullmatch(word)


@lru_cache(_CACHED_WORDS)
def _stem(word: str, language: str) -> str:
    return searched_words(word, language)


def _is_inflected(word: str, other: str, distance: int) -> bool:
    """Tell whether two words are probably forms of one, with other endings ("beantragen" and "beantragt"), or
    infinitives of which one has a "zu" ("mitbringen" and "mitzubringen")."""
    beginning = max(len(word), len(other)) - _ENDING
    is_alike = word[:beginning] == other[:beginning] or word.replace("zu", "") == other.replace("zu", "")
    return distance > 1 and is_alike


def _nearest(word: str, lowered: str, languages: Collection[str]) -> str:
    """Return the nearest word of the texts, of equal ones that with the same letters, then the most
    frequent; "" if none is near enough."""
    limit = 2 if len(word) >= TWO_MISTAKES else 1
    # The first letter is seldom wrong, and another one mostly makes another word.
    fewest, most = max(MIN_CHARACTERS, len(word) - limit), len(word) + limit
    alike = re.findall(rf"\b{word[0]}\w{{{fewest - 1},{most - 1}}}\b", lowered)
    letters, near = set(word), []
    for other, count in Counter(alike).items():
        others = len(letters.symmetric_difference(other))
        # A mistake takes a letter away and brings another.
        if others > 2 * limit or not other.isalpha() or is_stop_word(other):
            continue
        distance = distance_within(word, other, limit)
        # With the same stem, keyword search finds it.
        if distance and not (
            _is_inflected(word, other, distance)
            or any(_stem(word, language) == _stem(other, language) for language in languages)
        ):
            near.append((distance, others, -count, other))
    return min(near)[-1] if near else ""
