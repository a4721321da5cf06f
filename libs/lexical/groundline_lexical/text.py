"""What is indexed of a chunk, and what is searched for: text with the parts of its identifiers.

The backends' tokenizers split at everything that is no letter or digit, so `snake_case` and `dotted.names`
fall apart by themselves. What they do not give is added here: the parts of `camelCase` and `utf8`, and
`snakecase` as one word, which finds the same name in either spelling.

Nor do they split what is written without spaces: a whole clause of Chinese or Japanese would be one word. Its
pairs of neighbouring characters are added, and those of Korean, whose words carry particles: in every
collection, which may hold several languages, and without a dictionary, which would lack names.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain, islice
from urllib.parse import unquote, urlsplit

__all__ = ["TEXT_VERSION", "lexical_text", "searched_text"]

TEXT_VERSION = 2
"""Raised when `lexical_text` makes another text of the same chunk, which then has to be stored anew."""

TITLE_WEIGHT = 2
"""How often a title counts: it says in few words what the whole is about, and stands once among many."""

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

# Han, kana and Hangul, as NFKC leaves them.
_UNSPACED = re.compile(
    r"[\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def lexical_text(text: str, *, context: str, title: str, uri: str) -> str:
    """What the index holds of a chunk: title, path, context, the text itself, and sub-tokens of all of them.

    The title is there TITLE_WEIGHT times and the path once, what the context has of them included. The result
    holds nothing that PostgreSQL cannot store.
    """
    path = _path(uri)
    titles = [title] * (TITLE_WEIGHT - (title in context)) if title else []
    paths = [path] if path and path not in context else []
    whole = _clean("\n".join([*titles, *paths, *([context] if context else []), text]))
    added = " ".join([*islice(_sub_tokens(whole), MAX_SUB_TOKENS), *_pairs(whole, singles=True)])
    return f"{whole}\n{added}" if added else whole


def searched_text(query: str) -> str:
    """The query's words and sub-tokens, each once, whatever its case; empty when it has none."""
    cleaned = _clean(query)
    words: dict[str, None] = dict.fromkeys(cleaned.lower().split())
    words = dict.fromkeys(islice(words, MAX_QUERY_WORDS))
    parts = chain(_sub_tokens(cleaned), _pairs(cleaned, singles=False))
    added: dict[str, None] = dict.fromkeys(islice(parts, MAX_QUERY_WORDS))
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
        if not word.isascii() and _UNSPACED.search(word):
            # The letters and figures beside such characters are words of their own.
            for segment in _UNSPACED.sub(" ", word.replace("_", " ")).split():
                yield segment.lower()
                yield from _parts(segment)
            continue
        segments = [segment for segment in word.split("_") if segment]
        for segment in segments:
            yield from _parts(segment)
        if len(segments) > 1:
            yield "".join(segments).lower()


def _parts(segment: str) -> Iterator[str]:
    parts = _BOUNDARY.split(segment)
    if len(parts) > 1:
        yield from (part.lower() for part in parts)


def _pairs(text: str, *, singles: bool) -> Iterator[str]:
    """Of each run of characters without spaces the overlapping pairs; single characters where they stand
    alone and, for the words of one character among those searched for, `singles` all of them."""
    if text.isascii():
        return
    for match in _UNSPACED.finditer(text):
        run = match[0]
        if singles or len(run) == 1:
            yield from run
        yield from (run[at : at + 2] for at in range(len(run) - 1))


def _path(uri: str) -> str:
    """Host and path of a URL, the path of a file; what cannot be read as either is taken as it is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(f"{parts.netloc}{parts.path}").strip("/")
