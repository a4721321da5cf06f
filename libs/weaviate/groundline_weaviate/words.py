"""Words as the index holds them: stemmed, without stop words. Weaviate stems nothing itself."""

from functools import cache
from typing import Any, Final

from groundline_lexical import STEMMED, searched_text, without_stop_words
from py_rust_stemmers import SnowballStemmer  # type: ignore[import-untyped]
from stop_words import get_stop_words  # type: ignore[import-untyped]

__all__ = ["searched_words", "stored_words"]

_WITHOUT_STEMMER: Final = frozenset({"polish"})
"""Languages of ours that Snowball's compiled stemmers lack: indexed as they are."""

_WITHOUT_LIST: Final = frozenset({"tamil"})
"""Languages of ours without a list of stop words there."""


def stored_words(lexical_text: str, language: str) -> str:
    """Return the stored words of a chunk's `lexical_text`, which is words already, in the collection's
    language."""
    return _stems(_without_stop_words(lexical_text, language), language)


def searched_words(query: str, language: str) -> str:
    """Return the words to search for; "" if the query has only stop words."""
    return _stems(_without_stop_words(searched_text(query), language), language)


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


def _stems(words: str, language: str) -> str:
    stemmer = _stemmer(language)
    return words if stemmer is None else " ".join(stemmer.stem_words(words.split()))


@cache
def _stemmer(language: str) -> Any:
    """Return the stemmer of a language; None if words stay as they are."""
    return SnowballStemmer(language) if language in STEMMED - _WITHOUT_STEMMER else None
