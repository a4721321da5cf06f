"""Words that are indexed and searched for, among them the parts of identifiers.

Each backend splits text in its own way; PostgreSQL's parser makes a single token of `a/b.py`, of a host or an
e-mail address. So the stored text consists of words already, in lower case and with one space between them:
runs of letters and digits with their marks. This splits `snake_case` and `dotted.names`. Added are the parts
of `camelCase` and `utf8`, and `snakecase` as one word, which finds a name in either spelling.

It does not split scripts without spaces: a whole clause of Chinese or Japanese would be one word. Its pairs
of neighbouring characters are added, and those of Korean, whose words carry particles: in every collection,
which may hold several languages, and without a dictionary, which would lack names.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain, islice
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final
from urllib.parse import unquote, urlsplit

TEXT_VERSION: Final = 3
"""Version of the stored text; raised when `lexical_text` makes another text of the same chunk, which must
then be stored again."""

TITLE_WEIGHT: Final = 2
"""Number of times that a title is stored: it says in few words what the whole is about, and occurs only once
among many."""

MAX_QUERY_WORDS: Final = 256
"""Maximum words of a query that are searched for, and as many sub-tokens beside them; each costs a posting
list."""

MAX_SUB_TOKENS: Final = 2000
"""Maximum number of tokens added to one text."""

# A longer word is not a name but data, such as base64.
_MAX_IDENTIFIER_CHARACTERS: Final = 80

_WORD: Final = re.compile(r"\w+")
_LOWER: Final = "a-zß-öø-ÿ"
_UPPER: Final = "A-ZÀ-ÖØ-Þ"
_BOUNDARY: Final = re.compile(
    rf"(?<=[{_LOWER}])(?=[{_UPPER}])"  # camel|Case
    rf"|(?<=[{_UPPER}])(?=[{_UPPER}][{_LOWER}])"  # HTTP|Server
    rf"|(?<=[{_LOWER}{_UPPER}])(?=[0-9])|(?<=[0-9])(?=[{_LOWER}{_UPPER}])"  # utf|8, 3|D
)

# For texts in ASCII, which most are, tables are three times as fast as expressions. The first puts letters in
# lower case and a space for other characters, the second tells kinds of characters apart.
_AS_WORDS: Final = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(128)
) + bytes(128)
_KINDS: Final = bytes.maketrans(
    (ascii_uppercase + ascii_lowercase + digits).encode(), b"A" * 26 + b"a" * 26 + b"0" * 10
)
_HAVE_PARTS: Final = (b"_", b"aA", b"a0", b"AAa", b"A0", b"0a", b"0A")
"""Patterns, by the kinds of characters, of which every ASCII word with parts has one."""

# Han, kana and Hangul, as NFKC leaves them.
UNSPACED: Final = re.compile(
    r"[\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+"
)


# Characters that do not show, or only choose how another is drawn: the soft hyphen, the zero-width joiner,
# the variation selectors.
_INVISIBLE: Final = dict.fromkeys((0xAD, 0x200D, *range(0xFE00, 0xFE10)))


def lexical_text(text: str, *, context: str, title: str, uri: str) -> str:
    """Return the indexed text of a chunk: title, path, context, the text itself, and sub-tokens of all of
    them.

    The title is repeated TITLE_WEIGHT times and the path stands once, occurrences in the context included.
    """
    path = _path(uri)
    titles = [title] * (TITLE_WEIGHT - (title in context)) if title else []
    paths = [path] if path and path not in context else []
    whole = _clean("\n".join([*titles, *paths, context, text]))
    words = _ascii_words(whole) if whole.isascii() else " ".join(_words(whole))
    added = [*islice(_sub_tokens(whole), MAX_SUB_TOKENS), *_pairs(words, singles=True)]
    return " ".join([words, *added]) if added else words


def searched_text(query: str) -> str:
    """Return the query's words and sub-tokens; "" if it has none.

    Repeated words are searched for once; a word in several names, such as `il` in `IL-6` and `IL-10`, counts
    as often.
    """
    cleaned = _clean(query)
    written = dict.fromkeys(_lower(cleaned).split())
    words = _words(" ".join(written))[:MAX_QUERY_WORDS]
    parts = islice(chain(_sub_tokens(cleaned), _pairs(" ".join(words), singles=False)), MAX_QUERY_WORDS)
    added = dict.fromkeys([part for part in parts if part not in written])
    return " ".join([*words, *added])


def _clean(text: str) -> str:
    """Return the text compatibility-composed, so that different spellings match, and valid Unicode."""
    if text.isascii():
        return text
    valid = text.encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFKC", valid).translate(_INVISIBLE)


def _words(text: str) -> list[str]:
    lowered = _lower(text)
    if lowered.isascii():
        return _ascii_words(lowered).split()
    return marked_word().findall(lowered.replace("_", " "))


def _ascii_words(text: str) -> str:
    """Return the words of a text in ASCII, in lower case."""
    return b" ".join(text.encode().translate(_AS_WORDS).split()).decode()


def _lower(text: str) -> str:
    # Python keeps the dot of a Turkish capital I as a mark of its own.
    return text.lower().replace("i\u0307", "i")


@cache
def marked_word() -> re.Pattern[str]:
    r"""Compile the pattern of a letter or digit, then any of them and of their marks, such as the vowel signs
    of Tamil, with characters that do not show between them.

    The marks, which \w leaves out, are all below U+1F000.
    """
    marks = (chr(code) for code in range(0x300, 0x1F000))
    return re.compile(
        rf"\w[\w\xad\u200d{''.join(mark for mark in marks if unicodedata.category(mark) in ('Mn', 'Mc'))}]*"
    )


def _sub_tokens(text: str) -> Iterator[str]:
    if text.isascii():
        kinds = text.encode().translate(_KINDS)
        if not any(parts in kinds for parts in _HAVE_PARTS):
            return  # most prose: examining each of its words takes far longer
    for word in _WORD.findall(text):
        # Nearly every word is of lower-case letters, with a capital at most in front: it has no parts.
        if word.isascii() and word.isalpha() and (word.islower() or word.istitle()):
            continue
        if len(word) > _MAX_IDENTIFIER_CHARACTERS:
            continue
        if not word.isascii() and UNSPACED.search(word):
            # The letters and figures beside such characters are words of their own.
            for segment in UNSPACED.sub(" ", word.replace("_", " ")).split():
                yield _lower(segment)
                yield from _parts(segment)
            continue
        segments = [segment for segment in word.split("_") if segment]
        for segment in segments:
            yield from _parts(segment)
        if len(segments) > 1:
            yield _lower("".join(segments))


def _parts(segment: str) -> Iterator[str]:
    parts = _BOUNDARY.split(segment)
    if len(parts) > 1:
        yield from map(_lower, parts)


def _pairs(words: str, *, singles: bool) -> Iterator[str]:
    """Return the overlapping pairs of each run of characters without spaces; single characters if they stand
    alone and, for the words of one character among those searched for, `singles` all of them."""
    if words.isascii():
        return
    for match in UNSPACED.finditer(words):
        run = match[0]
        if singles or len(run) == 1:
            yield from run
        yield from (run[at : at + 2] for at in range(len(run) - 1))


def _path(uri: str) -> str:
    """Return host and path of a URL, the path of a file; other text is taken as it is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(f"{parts.netloc}{parts.path}").strip("/")
