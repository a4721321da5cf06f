"""Language of a text, and the terms by which texts are compared."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.resources import files
from itertools import chain
from typing import Final

from py_rust_stemmers import SnowballStemmer  # type: ignore[import-untyped]

__all__ = ["content_terms", "guess_language"]

_MEASURED: Final = ("english", "german")
"""Languages whose answers were measured; a text that is as much another's is taken for theirs."""

_LANGUAGES: Final = (*_MEASURED, "dutch", "french", "italian", "polish", "portuguese", "spanish")
_UNSTEMMED: Final = ("polish",)
"""Languages that the stemmer does not know."""

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
    **{
        language: str if language in _UNSTEMMED else SnowballStemmer(language).stem_word
        for language in _LANGUAGES
    },
    None: str,
}

# A number with its decimals is one word, and so is a designation such as DN-4 or COVID-19.
_WORD: Final = re.compile(r"\d+(?:[.,:]\d+)+|[^\W\d_]+-\d+\w*|\w+(?:['’]\w+)*")
# Split camelCase, digits next to letters, and snake_case.
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+|[A-Z]")
# Articles, pronouns and prepositions that lose their vowel before another: l'eau, dell'acqua.
_ELIDED: Final[Mapping[str | None, re.Pattern[str]]] = {
    "french": re.compile(r"(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu)['’](?=\w)"),
    "italian": re.compile(r"(?:[cdlmnstv]|un|all|dall|dell|nell|sull|quest|quell|dov|com)['’](?=\w)"),
}
_NEVER: Final = re.compile(r"(?!)")
_POSSESSIVE: Final = re.compile(r"['’]s?$", re.IGNORECASE)
# Scripts written without spaces: their words are approximated by pairs of characters.
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]+")
_UNSPACED_LETTER: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]")


def guess_language(text: str) -> str | None:
    """Return the language whose function words are the most frequent in the text; None if it is undecided."""
    tokens = text[:_GUESSED_FROM_CHARACTERS].split()
    counts = Counter(chain.from_iterable(map(_SPOKEN.__getitem__, tokens)))
    ranked = sorted(((count, name in _MEASURED, name) for name, count in counts.items()), reverse=True)
    if not ranked or (len(ranked) > 1 and ranked[0][:2] == ranked[1][:2]):
        return None
    return ranked[0][2]


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


def _spoken(token: str) -> tuple[str, ...]:
    """Return the languages of the function words in a token, of each as often as it has such. Single letters
    say little: code and formulas have them too."""
    words = [word.casefold().replace("’", "'") for word in _WORD.findall(token)]
    return tuple(
        language
        for language in _LANGUAGES
        for word in words
        if (word in _STOP_WORDS[language] and (len(word) > 1 or language in _MEASURED))
        or _ELIDED.get(language, _NEVER).match(word)
    )


def _terms(token: str, language: str | None) -> tuple[str, ...]:
    return tuple(chain.from_iterable(_terms_of_word(word, language) for word in _WORD.findall(token)))


def _terms_of_word(word: str, language: str | None) -> Iterable[str]:
    if not word.isascii() and _UNSPACED_LETTER.search(word):
        return [
            run[index : index + 2] for run in _UNSPACED.findall(word) for index in range(max(1, len(run) - 1))
        ]
    plain = _POSSESSIVE.sub("", word)
    folded = plain.casefold().replace("’", "'")
    if language is not None and folded in _STOP_WORDS[language]:
        return ()
    if elided := _ELIDED.get(language, _NEVER).match(folded):
        return _terms_of_word(word[elided.end() :], language)
    stem = _STEM[language]
    if folded.isalpha() and (plain.islower() or plain[1:].islower()):
        return (stem(folded),)
    parts = _PART.findall(plain)
    if len(parts) < 2:
        return (stem(folded),)
    return (stem(folded), *(stem(part.casefold()) for part in parts if len(part) > 1))


_SPOKEN: Final = _Remembered(_spoken)
_TERMS: Final[Mapping[str | None, _Remembered[tuple[str, ...]]]] = {
    language: _Remembered(partial(_terms, language=language)) for language in (*_LANGUAGES, None)
}
