"""Terms by which texts are compared."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Final

from py_rust_stemmers import SnowballStemmer  # type: ignore[import-untyped]

from groundline_language import LANGUAGES, STOP_WORDS, WORD, Remembered, elided, folded

_UNSTEMMED: Final = ("polish",)
"""Languages that the stemmer does not know."""

_STEM: Final[Mapping[str | None, Callable[[str], str]]] = {
    **{
        language: str if language in _UNSTEMMED else SnowballStemmer(language).stem_word
        for language in LANGUAGES
    },
    None: str,
}

# Split camelCase, digits next to letters, and snake_case.
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+|[A-Z]")
_POSSESSIVE: Final = re.compile(r"['’]s?$", re.IGNORECASE)
_DENIED_VERB: Final = re.compile(r"[a-z]+n['’]t", re.IGNORECASE)
"""English auxiliary verbs with a "not": "can't", "won't"."""
_SHORTENED: Final = re.compile(r"['’](?:ll|re|ve|d|m)$", re.IGNORECASE)
"""Ends of English words that are auxiliary verbs: "we've"."""

# Scripts written without spaces: their words are approximated by pairs of characters.
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]+")
_UNSPACED_LETTER: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]")


def content_terms(text: str, language: str | None) -> list[str]:
    """Return the terms of a text in their order: lower-cased, without stop words, stemmed if a language is
    given.

    An identifier such as `maxRetryCount`, `max_retry_count` or `DN-4` yields itself and its parts.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return list(chain.from_iterable(map(_TERMS[language].__getitem__, text.split())))


def _terms(token: str, language: str | None) -> tuple[str, ...]:
    return tuple(chain.from_iterable(_terms_of_word(word, language) for word in WORD.findall(token)))


def _terms_of_word(word: str, language: str | None) -> Iterable[str]:
    if not word.isascii() and _UNSPACED_LETTER.search(word):
        return [
            run[index : index + 2] for run in _UNSPACED.findall(word) for index in range(max(1, len(run) - 1))
        ]
    plain = _POSSESSIVE.sub("", word)
    if language == "english" and not plain.isalnum():
        if _DENIED_VERB.fullmatch(plain):
            return ()
        plain = _SHORTENED.sub("", plain)
    bare = folded(plain)
    if language is not None and bare in STOP_WORDS[language]:
        return ()
    if lost := elided(bare, language):
        return _terms_of_word(word[lost:], language)
    stem = _STEM[language]
    is_plain = bare.isalpha() and (plain.islower() or plain[1:].islower())
    if is_plain or len(parts := _PART.findall(plain)) < 2:
        return (stem(bare),)
    return (stem(bare), *(stem(part.casefold()) for part in parts if len(part) > 1))


_TERMS: Final[Mapping[str | None, Remembered[tuple[str, ...]]]] = {
    language: Remembered(partial(_terms, language=language)) for language in (*LANGUAGES, None)
}
