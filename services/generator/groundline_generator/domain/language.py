"""Language of a text, and the terms by which texts are compared."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.resources import files
from itertools import chain
from typing import Final

from py_rust_stemmers import SnowballStemmer  # type: ignore[import-untyped]

__all__ = ["content_terms", "guess_language"]

_LANGUAGES: Final = ("english", "german")
_GUESSED_FROM_CHARACTERS: Final = 4_000
_LONGEST_REMEMBERED: Final = 32
_REMEMBERED_TOKENS: Final = 32_768


def _stop_words(language: str) -> frozenset[str]:
    """Return function words, and words that only make a question a question; the others tell what a text is
    about."""
    file = files("groundline_generator.domain") / "stop_words" / f"{language}.txt"
    return frozenset(file.read_text(encoding="utf-8").split())


_STOP_WORDS: Final = {language: _stop_words(language) for language in _LANGUAGES}
_STEM: Final[Mapping[str | None, Callable[[str], str]]] = {
    **{language: SnowballStemmer(language).stem_word for language in _LANGUAGES},
    None: str,
}

# A number with its decimals is one word, and so is a designation such as DN-4 or COVID-19.
_WORD: Final = re.compile(r"\d+(?:[.,:]\d+)+|[^\W\d_]+-\d+\w*|\w+(?:['’]\w+)*")
# Split camelCase, digits next to letters, and snake_case.
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+|[A-Z]")
_POSSESSIVE: Final = re.compile(r"['’]s?$", re.IGNORECASE)
# Scripts written without spaces: their words are approximated by pairs of characters.
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]+")
_UNSPACED_LETTER: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]")


def guess_language(text: str) -> str | None:
    """Return the language whose function words are the most frequent in the text; None if it is undecided."""
    tokens = text[:_GUESSED_FROM_CHARACTERS].split()
    counts = sorted(
        ((sum(map(found.__getitem__, tokens)), name) for name, found in _FUNCTION_WORDS.items()), reverse=True
    )
    return counts[0][1] if counts[0][0] > counts[1][0] else None


def content_terms(text: str, language: str | None) -> list[str]:
    """Return the terms of a text in their order: lower-cased, without stop words, stemmed if a language is
    given.

    An identifier such as `maxRetryCount`, `max_retry_count` or `DN-4` yields itself and its parts.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return list(chain.from_iterable(map(_TERMS[language].__getitem__, text.split())))


class _Remembered[T](dict[str, T]):
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


def _function_words(token: str, language: str) -> int:
    return sum(word.casefold() in _STOP_WORDS[language] for word in _WORD.findall(token))


def _terms(token: str, language: str | None) -> tuple[str, ...]:
    return tuple(chain.from_iterable(_terms_of_word(word, language) for word in _WORD.findall(token)))


def _terms_of_word(word: str, language: str | None) -> Iterable[str]:
    if not word.isascii() and _UNSPACED_LETTER.search(word):
        return [
            run[index : index + 2] for run in _UNSPACED.findall(word) for index in range(max(1, len(run) - 1))
        ]
    plain = _POSSESSIVE.sub("", word)
    folded = plain.casefold()
    if language is not None and folded in _STOP_WORDS[language]:
        return ()
    stem = _STEM[language]
    if folded.isalpha() and (plain.islower() or plain[1:].islower()):
        return (stem(folded),)
    parts = _PART.findall(plain)
    if len(parts) < 2:
        return (stem(folded),)
    return (stem(folded), *(stem(part.casefold()) for part in parts if len(part) > 1))


_FUNCTION_WORDS: Final[Mapping[str, _Remembered[int]]] = {
    language: _Remembered(partial(_function_words, language=language)) for language in _LANGUAGES
}
_TERMS: Final[Mapping[str | None, _Remembered[tuple[str, ...]]]] = {
    language: _Remembered(partial(_terms, language=language)) for language in (*_LANGUAGES, None)
}
