"""Marks of prompt injection: text that gives instructions to an assistant that reads it.

Rules for English and German, by words. What is marked stays and is found: the mark tells readers, filters and
answers. Harmless sentences that speak to people in the same words are marked at times, and instructions that
read like any other sentence are not noticed.
"""

import base64
import re
import tomllib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from itertools import chain
from typing import Any, Final

MARK: Final = "promptInjection"
"""Key of a chunk's metadata, true where its text, or its document's title, name or metadata, is marked."""

_BEGINNING: Final = 5
"""Letters by which words tell which patterns are worth looking for: most sentences have none of them."""

_PART: Final = re.compile(r"%([A-Z]+)%")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD: Final = re.compile(r"[^\W_]{2,}")
_SEPARATOR: Final = re.compile(r"[_\-/.]+")
_INVISIBLE: Final = re.compile(r"[\U000E0000-\U000E007F\u200b-\u200d\u2060\ufeff]")
_DISGUISED: Final = re.compile(r"[\U000E0000-\U000E007F\u200b-\u200d\u2060\ufeff\uff01-\uff5e]")
"""Letters that nobody sees, and those of full width, which a text in a Latin script has no use for."""
_SPACED_LETTERS: Final = 7
_SPACED: Final = re.compile(r"(?:\b[^\W\d_]\s{1,3}){6,}[^\W\d_]\b")
_LEET_WORDS: Final = 3
_LEET: Final = re.compile(r"[013457]+[A-Za-z]")
_ENCODED_CHARACTERS: Final = 24
_LETTERS: Final = str.maketrans("013457_", "oieast ")
_BASE64: Final = re.compile(r"(?<![\w+/])[A-Za-z0-9+/]{24,}={0,2}(?![\w+/=])")


def _by_beginning() -> Mapping[str, tuple[re.Pattern[str], ...]]:
    """Return the patterns to look for in a sentence that has a word with a beginning."""
    rules = tomllib.loads(
        (files("groundline_indexing.injections") / "rules.toml").read_text(encoding="utf-8")
    )
    found: dict[str, dict[re.Pattern[str], None]] = defaultdict(dict)
    for rule in rules["rules"]:
        pattern = _PART.sub(lambda part: rules["parts"][part[1]], "|".join(rule["patterns"]))
        compiled = re.compile(pattern, re.IGNORECASE)
        for word in rule["words"].split():
            found[word[:_BEGINNING]][compiled] = None
    return {beginning: tuple(patterns) for beginning, patterns in found.items()}


_PATTERNS_OF: Final = _by_beginning()


def looks_injected(text: str) -> bool:
    """Tell whether a text looks like instructions to an assistant."""
    return _is_told(text) or any(_is_told(hidden) for hidden in _hidden(text))


def _hidden(text: str) -> Iterator[str]:
    """Yield what a text says in disguise: in wide letters, with gaps or digits in it, in base64."""
    if not text.isascii() and _DISGUISED.search(text):
        yield _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    tokens = text.split()
    if sum(len(token) == 1 for token in tokens) >= _SPACED_LETTERS and (spaced := _SPACED.findall(text)):
        yield " ".join(re.sub(r"\s", "", word) for run in spaced for word in re.split(r"\s{2,}", run))
    if len(_LEET.findall(text)) >= _LEET_WORDS:
        yield text.translate(_LETTERS)
    if max(map(len, tokens), default=0) >= _ENCODED_CHARACTERS:
        for token in _BASE64.findall(text):
            with suppress(ValueError, UnicodeDecodeError):
                yield base64.b64decode(token, validate=True).decode()


def _is_told(text: str) -> bool:
    for sentence in _SENTENCE_END.split(text):
        beginnings = {word[:_BEGINNING] for word in _WORD.findall(sentence.lower())}
        patterns = dict.fromkeys(
            chain.from_iterable(map(_PATTERNS_OF.__getitem__, beginnings & _PATTERNS_OF.keys()))
        )
        if any(pattern.search(sentence) for pattern in patterns):
            return True
    return False


def strings_of(title: str, uri: str, metadata: Mapping[str, Any]) -> str:
    """Return what a document is called and described by: its title, its name in words, and its metadata."""
    name = _SEPARATOR.sub(" ", uri.rsplit("/", 1)[-1])
    return "\n".join([title, name, *_texts(metadata.values())])


def _texts(values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, list | tuple):
            yield from _texts(value)
