"""Full-text search on PostgreSQL: the LexicalIndex port, its backends, and the text that they index."""

from groundline_lexical.detection import detect_lexical_index
from groundline_lexical.errors import LexicalIndexError
from groundline_lexical.highlights import Match, matches, snippet_span
from groundline_lexical.languages import SIMPLE, STEMMED, languages, without_stop_words
from groundline_lexical.ports import Capabilities, Connection, LexicalIndex
from groundline_lexical.recovery import LAST_RECOVERY
from groundline_lexical.tables import has_index
from groundline_lexical.text import TEXT_VERSION, UNSPACED, lexical_text, searched_text
from groundline_lexical.words import (
    MAXIMUM_SEARCHED_TERMS,
    TERMS,
    is_stop_word,
    searched_terms,
    searched_words,
    stems,
    stored_terms,
    stored_words,
)

__all__ = [
    "LAST_RECOVERY",
    "MAXIMUM_SEARCHED_TERMS",
    "SIMPLE",
    "STEMMED",
    "TERMS",
    "TEXT_VERSION",
    "UNSPACED",
    "Capabilities",
    "Connection",
    "LexicalIndex",
    "LexicalIndexError",
    "Match",
    "detect_lexical_index",
    "has_index",
    "is_stop_word",
    "languages",
    "lexical_text",
    "matches",
    "searched_terms",
    "searched_text",
    "searched_words",
    "snippet_span",
    "stems",
    "stored_terms",
    "stored_words",
    "without_stop_words",
]
