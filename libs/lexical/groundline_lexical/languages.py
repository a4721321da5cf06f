"""Languages of collections."""

from typing import Final

SIMPLE: Final = "simple"
"""Language without stop words and stemming: for code, names, and every language that is not listed."""

STEMMED: Final = frozenset(
    {
        "arabic",
        "danish",
        "dutch",
        "english",
        "finnish",
        "french",
        "german",
        "greek",
        "hungarian",
        "italian",
        "norwegian",
        "polish",
        "portuguese",
        "romanian",
        "russian",
        "spanish",
        "swedish",
        "tamil",
        "turkish",
    }
)
"""Languages with stop words and stemming."""

_ENGLISH: Final = """
    a about above after again against all am an and any are as at be because been before being below between
    both but by can cannot could did do does doing down during each few for from further had has have having
    he her here hers herself him himself his how i if in into is it its itself me more most my myself no nor
    not of off on once only or other ought our ours ourselves out over own same she should so some such than
    that the their theirs them themselves then there these they this those through to too under until up very
    was we were what when where which while who whom why will with would you your yours yourself yourselves
"""

ENGLISH_STOP_WORDS: Final = tuple(_ENGLISH.split())
"""Function words and question words, as the lists of other languages have them."""

_ENGLISH_STOP_WORDS: Final = frozenset(ENGLISH_STOP_WORDS)

_STEMS: Final = "abov ani becaus befor doe dure onc onli ourselv themselv veri whi yourselv"

ENGLISH_STOP_STEMS: Final = tuple(_STEMS.split())
"""Stems of the stop words that the English stemmer changes, for backends that stem first."""


def languages() -> frozenset[str]:
    """Return the names that create_index knows, "simple" among them; any other is indexed as simple."""
    return STEMMED | {SIMPLE}


def without_stop_words(words: str, language: str) -> str:
    """Remove our own stop words, which exist only for English, from a query's words.

    For backends that have PostgreSQL's lists in the index, which may lack some.
    """
    if language != "english":
        return words
    return " ".join(word for word in words.split() if word not in _ENGLISH_STOP_WORDS)
