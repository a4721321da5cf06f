"""Words: which language a text is in, and the terms by which texts are compared."""

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files

from py_rust_stemmers import SnowballStemmer  # type: ignore[import-untyped]

__all__ = ["content_terms", "guess_language"]

_LANGUAGES = ("english", "german")


def _stop_words(language: str) -> frozenset[str]:
    """Function words, and words that only make a question a question; the rest is what a text is about."""
    file = files("groundline_generator.domain") / "stop_words" / f"{language}.txt"
    return frozenset(file.read_text(encoding="utf-8").split())


_STOP_WORDS = {language: _stop_words(language) for language in _LANGUAGES}
_STEMMERS = {language: SnowballStemmer(language) for language in _LANGUAGES}

_WORD = re.compile(r"\w+(?:['’]\w+)*")
# camelCase, digits next to letters, and snake_case come apart.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+|[A-Z]")
_POSSESSIVE = re.compile(r"['’]s?$", re.IGNORECASE)
# Scripts written without spaces: their words are approximated by pairs of characters.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]+")
_UNSPACED_LETTER = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]")


def guess_language(text: str) -> str | None:
    """The language whose function words are the most frequent in the text; None where nothing decides."""
    words = [word.casefold() for word in _WORD.findall(text[:4000])]
    counts = sorted(
        ((sum(word in stop for word in words), name) for name, stop in _STOP_WORDS.items()), reverse=True
    )
    return counts[0][1] if counts[0][0] > counts[1][0] else None


def content_terms(text: str, language: str | None) -> list[str]:
    """The terms of a text in their order: lower-cased, without stop words, stemmed where a language is given.

    An identifier such as `maxRetryCount` or `max_retry_count` yields itself and its parts.
    """
    terms: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text)):
        if _UNSPACED_LETTER.search(word):
            terms.extend(_character_pairs(word))
            continue
        plain = _POSSESSIVE.sub("", word)
        folded = plain.casefold()
        if folded in _STOP_WORDS.get(language or "", frozenset()):
            continue
        terms.append(_stem(folded, language))
        if not folded.isalpha() or not (plain.islower() or plain[1:].islower()):
            parts = _PART.findall(plain)
            if len(parts) > 1:
                terms.extend(_stem(part.casefold(), language) for part in parts if len(part) > 1)
    return terms


def _character_pairs(word: str) -> list[str]:
    return [
        run[index : index + 2] for run in _UNSPACED.findall(word) for index in range(max(1, len(run) - 1))
    ]


@lru_cache(maxsize=65_536)
def _stem(word: str, language: str | None) -> str:
    return word if language is None else str(_STEMMERS[language].stem_word(word))
