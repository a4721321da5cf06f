"""What is indexed of a chunk, and what is searched for: text with the parts of its identifiers.

The backends' tokenizers split at everything that is no letter or digit, so `snake_case` and `dotted.names`
fall apart by themselves. What they do not give is added here: the parts of `camelCase` and `utf8`, and
`snakecase` as one word, which finds the same name in either spelling.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from urllib.parse import unquote, urlsplit

__all__ = ["lexical_text", "searched_text"]

MAX_QUERY_WORDS = 256
"""Distinct words of a query that are searched for; each costs a posting list."""

MAX_SUB_TOKENS = 2000
"""Most tokens added to one text."""

# Beyond this a word is not a name but data, such as base64.
_MAX_IDENTIFIER_CHARACTERS = 80

_WORD = re.compile(r"\w+")
_LOWER, _UPPER = "a-zß-öø-ÿ", "A-ZÀ-ÖØ-Þ"
_BOUNDARY = re.compile(
    rf"(?<=[{_LOWER}])(?=[{_UPPER}])"  # camel|Case
    rf"|(?<=[{_UPPER}])(?=[{_UPPER}][{_LOWER}])"  # HTTP|Server
    rf"|(?<=[{_LOWER}{_UPPER}])(?=[0-9])|(?<=[0-9])(?=[{_LOWER}{_UPPER}])"  # utf|8, 3|D
)


def lexical_text(text: str, *, context: str, title: str, uri: str) -> str:
    """What the index holds of a chunk: title, path, context, the text itself, and sub-tokens of all of them.

    A title or path that the context already has is not counted twice. The result holds nothing that
    PostgreSQL cannot store.
    """
    path = _path(uri)
    parts = [part for part in (title, path) if part and part not in context]
    whole = _clean("\n".join([*parts, *([context] if context else []), text]))
    added = " ".join(islice(_sub_tokens(whole), MAX_SUB_TOKENS))
    return f"{whole}\n{added}" if added else whole


def searched_text(query: str) -> str:
    """The query's words and sub-tokens, each once, whatever its case; empty when it has none."""
    cleaned = _clean(query)
    words: dict[str, None] = dict.fromkeys(cleaned.lower().split())
    words = dict.fromkeys(islice(words, MAX_QUERY_WORDS))
    added: dict[str, None] = dict.fromkeys(islice(_sub_tokens(cleaned), MAX_QUERY_WORDS))
    return " ".join(words | added)


def _clean(text: str) -> str:
    """Compatibility-composed, so that one spelling meets another, without NUL and lone surrogates."""
    storable = text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFKC", storable)


def _sub_tokens(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match[0]
        if len(word) > _MAX_IDENTIFIER_CHARACTERS:
            continue
        segments = [segment for segment in word.split("_") if segment]
        for segment in segments:
            parts = _BOUNDARY.split(segment)
            if len(parts) > 1:
                yield from (part.lower() for part in parts)
        if len(segments) > 1:
            yield "".join(segments).lower()


def _path(uri: str) -> str:
    """Host and path of a URL, the path of a file; what cannot be read as either is taken as it is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(f"{parts.netloc}{parts.path}").strip("/")
