"""Words and terms of a language for what stems nothing itself: Weaviate, and the scores of this suite."""

import zlib
from collections import Counter
from functools import cache, lru_cache
from typing import Any, Final

from py_rust_stemmers import SnowballStemmer  # type: ignore[import-untyped]
from stop_words import get_stop_words  # type: ignore[import-untyped]

from groundline_lexical.languages import STEMMED, without_stop_words
from groundline_lexical.text import searched_text

TERMS: Final = 2**29
"""Number of terms. A stem has the one that it hashes to (CRC-32), so no vocabulary is kept; of a collection's
stems hardly two share one."""

MAXIMUM_SEARCHED_TERMS: Final = 64
"""Maximum number of terms of a query that are scored: the first ones."""

_STOP_WORD: Final = -1
_CACHED_WORDS: Final = 2**16

_WITHOUT_STEMMER: Final = frozenset({"polish"})
"""Languages of ours that Snowball's compiled stemmers lack: indexed as they are."""

_WITHOUT_LIST: Final = frozenset({"tamil"})
"""Languages of ours without a list of stop words there."""


def stored_words(lexical_text: str, language: str) -> str:
    """Return the stored words of a chunk's `lexical_text`, which is words already, in the collection's
    language."""
    return stems(_without_stop_words(lexical_text, language), language)


def searched_words(query: str, language: str) -> str:
    """Return the words to search for; "" if the query has only stop words."""
    return stems(_without_stop_words(searched_text(query), language), language)


def stored_terms(lexical_text: str, language: str) -> dict[int, float]:
    """Return the terms of a chunk's `lexical_text` with their counts."""
    terms = Counter(_term(word, language) for word in lexical_text.split())
    del terms[_STOP_WORD]
    return dict[int, float](terms)


def searched_terms(query: str, language: str) -> list[int]:
    """Return the terms to search for, MAXIMUM_SEARCHED_TERMS at most; none if the query has only stop
    words."""
    terms = dict.fromkeys(_term(word, language) for word in searched_text(query).split())
    return [term for term in terms if term != _STOP_WORD][:MAXIMUM_SEARCHED_TERMS]


def is_stop_word(word: str) -> bool:
    """Tell whether a word in lower case is one that says little in some language of ours."""
    return word in _all_stop_words()


@cache
def _all_stop_words() -> frozenset[str]:
    return frozenset(
        searched_text(word) for language in STEMMED - _WITHOUT_LIST for word in get_stop_words(language)
    )


# A few words make up most of any text: hashing and stemming each of them takes four times as long.
@lru_cache(_CACHED_WORDS)
def _term(word: str, language: str) -> int:
    stem = stems(_without_stop_words(word, language), language)
    return zlib.crc32(stem.encode()) % TERMS if stem else _STOP_WORD


def _without_stop_words(words: str, language: str) -> str:
    if language == "english":  # by the list of all backends
        return without_stop_words(words, language)
    dropped = _stop_words(language)
    return " ".join(word for word in words.split() if word not in dropped)


@cache
def _stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language other than English, as texts are stored.

    A class holds many languages, so that the most frequent words of one are not frequent in it.
    """
    if language not in STEMMED - _WITHOUT_LIST:
        return frozenset()
    return frozenset(searched_text(word) for word in get_stop_words(language))


def stems(words: str, language: str) -> str:
    """Return the stems of words in lower case, which spaces divide; the words if the language has none."""
    stemmer = _stemmer(language)
    return words if stemmer is None else " ".join(stemmer.stem_words(words.split()))


@cache
def _stemmer(language: str) -> Any:
    """Return the stemmer of a language; None if words stay as they are."""
    return SnowballStemmer(language) if language in STEMMED - _WITHOUT_STEMMER else None
