"""Languages that collections may be in."""

__all__ = ["SIMPLE", "STEMMED", "languages"]

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


def languages() -> frozenset[str]:
    """The names that create_index knows, "simple" among them; any other is indexed as simple."""
    return STEMMED | {SIMPLE}
