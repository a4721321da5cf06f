"""Languages that collections may be in."""

__all__ = [
    "ENGLISH_STOP_STEMS",
    "ENGLISH_STOP_WORDS",
    "SIMPLE",
    "STEMMED",
    "languages",
    "without_stop_words",
]

SIMPLE = "simple"
"""Text as it is, without stop words and stemming: for code, names, and every language that is not listed."""

STEMMED = frozenset(
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

_ENGLISH = """
    a about above after again against all am an and any are as at be because been before being below between
    both but by can cannot could did do does doing down during each few for from further had has have having
    he her here hers herself him himself his how i if in into is it its itself me more most my myself no nor
    not of off on once only or other ought our ours ourselves out over own same she should so some such than
    that the their theirs them themselves then there these they this those through to too under until up very
    was we were what when where which while who whom why will with would you your yours yourself yourselves
"""

ENGLISH_STOP_WORDS = tuple(_ENGLISH.split())
"""Words of grammar, and those that questions are asked with, as the lists of other languages have them."""

_ENGLISH_STOP_WORDS = frozenset(ENGLISH_STOP_WORDS)

_STEMS = "abov ani becaus befor doe dure onc onli ourselv themselv veri whi yourselv"

ENGLISH_STOP_STEMS = tuple(_STEMS.split())
"""What the English stemmer makes of the stop words that it changes, for backends that stem first."""


def languages() -> frozenset[str]:
    """The names that create_index knows, "simple" among them; any other is indexed as simple."""
    return STEMMED | {SIMPLE}


def without_stop_words(words: str, language: str) -> str:
    """Words of a query, with spaces between, without our own stop words, which there are for English only.

    For backends that have PostgreSQL's lists in the index, which may lack some.
    """
    if language != "english":
        return words
    return " ".join(word for word in words.split() if word not in _ENGLISH_STOP_WORDS)
