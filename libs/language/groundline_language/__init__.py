"""Language of a text, by its function words.

`STOP_WORDS` has a file for each language: function words, and words that only make a question a question; the
others tell what a text is about.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files
from itertools import chain
from types import MappingProxyType
from typing import Final

__all__ = ["LANGUAGES", "STOP_WORDS", "WORD", "Remembered", "elided", "folded", "guess_language"]

_MEASURED: Final = ("english", "german")
"""Languages whose answers were measured; a text that is as much another's is taken for theirs."""

LANGUAGES: Final = (*_MEASURED, "dutch", "french", "italian", "polish", "portuguese", "spanish")
"""English names of the languages that are known."""

_GUESSED_FROM_CHARACTERS: Final = 4_000
_LONGEST_REMEMBERED: Final = 32
_REMEMBERED_TOKENS: Final = 32_768


def _stop_words(language: str) -> frozenset[str]:
    file = files("groundline_language") / "stop_words" / f"{language}.txt"
    return frozenset(file.read_text(encoding="utf-8").split())


STOP_WORDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {language: _stop_words(language) for language in LANGUAGES}
)

# A number with its decimals is one word, and so is a designation such as DN-4 or COVID-19.
WORD: Final = re.compile(r"\d+(?:[.,:]\d+)+|[^\W\d_]+-\d+\w*|\w+(?:['’]\w+)*")

# Articles, pronouns and prepositions that lose their vowel before another: l'eau, dell'acqua.
_ELIDED: Final[Mapping[str, re.Pattern[str]]] = {
    "french": re.compile(r"(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu)'(?=\w)"),
    "italian": re.compile(r"(?:[cdlmnstv]|un|all|dall|dell|nell|sull|quest|quell|dov|com)'(?=\w)"),
}


class Remembered[T](dict[str, T]):
    """Cache of a computation on tokens. They recur, and a look-up takes a tenth of the computation. Long
    tokens, which are hashes, addresses and unspaced scripts, are not cached: they do not recur."""

    def __init__(self, compute: Callable[[str], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, token: str) -> T:
        computed = self._compute(token)
        if len(token) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED_TOKENS:
                self.clear()
            self[token] = computed
        return computed


def guess_language(text: str) -> str | None:
    """Return the language whose function words are the most frequent in the text; None if it is undecided."""
    tokens = text[:_GUESSED_FROM_CHARACTERS].split()
    counts = Counter(chain.from_iterable(map(_SPOKEN.__getitem__, tokens)))
    ranked = sorted(((count, name in _MEASURED, name) for name, count in counts.items()), reverse=True)
    if not ranked or (len(ranked) > 1 and ranked[0][:2] == ranked[1][:2]):
        return None
    return ranked[0][2]


def folded(word: str) -> str:
    """Return a word as STOP_WORDS has it."""
    return word.casefold().replace("’", "'")


def elided(word: str, language: str | None) -> int:
    """Return the length of what has lost its vowel at the beginning of a folded word; 0 for most."""
    pattern = _ELIDED.get(language or "")
    found = pattern.match(word) if pattern else None
    return found.end() if found else 0


_ADDRESS: Final = re.compile(r"\w+://\S*|\bwww\.\S*|\S+@\S+\.\S+")
"""Part of a token that is an address; its "com" and "de" are of no language."""


def _spoken(token: str) -> tuple[str, ...]:
    """Return the languages of the function words in a token, of each as often as it has such."""
    found: list[str] = []
    for word in map(folded, WORD.findall(_ADDRESS.sub("", token))):
        languages = _LANGUAGES_OF.get(word, frozenset())
        if "'" in word:
            languages = languages.union(each for each in _ELIDED if elided(word, each))
        found += languages
    return tuple(found)


# Single letters say little: code and formulas have them too.
_LANGUAGES_OF: Final[Mapping[str, frozenset[str]]] = {
    word: frozenset(
        each for each in LANGUAGES if word in STOP_WORDS[each] and (len(word) > 1 or each in _MEASURED)
    )
    for word in chain.from_iterable(STOP_WORDS.values())
}
_SPOKEN: Final = Remembered(_spoken)
