"""Words as the index holds them: stemmed, without stop words. Weaviate stems nothing itself."""

from functools import cache
from typing import Any

from groundline_lexical import STEMMED, searched_text, without_stop_words
from py_rust_stemmers import SnowballStemmer  # type: ignore[import-untyped]

__all__ = ["searched_words", "stored_words"]

_WITHOUT = frozenset({"polish"})
"""Languages of ours that Snowball's compiled stemmers lack: indexed as they are."""


def stored_words(lexical_text: str, language: str) -> str:
    """What is stored of a chunk's `lexical_text`, which is words already, in the collection's language."""
    return _stems(without_stop_words(lexical_text, language), language)


def searched_words(query: str, language: str) -> str:
    """What is searched for; empty where the query has no word but stop words."""
    return _stems(without_stop_words(searched_text(query), language), language)


def _stems(words: str, language: str) -> str:
    stemmer = _stemmer(language)
    return words if stemmer is None else " ".join(stemmer.stem_words(words.split()))


@cache
def _stemmer(language: str) -> Any:
    """The stemmer of a language; None where words stay as they are."""
    return SnowballStemmer(language) if language in STEMMED - _WITHOUT else None
