"""Full-text search on PostgreSQL: the LexicalIndex port, its backends, and the text that they index."""

from groundline_lexical.detection import detect_lexical_index
from groundline_lexical.errors import LexicalIndexError
from groundline_lexical.languages import SIMPLE, STEMMED, languages, without_stop_words
from groundline_lexical.ports import Capabilities, Connection, LexicalIndex
from groundline_lexical.recovery import LAST_RECOVERY
from groundline_lexical.text import TEXT_VERSION, lexical_text, searched_text

__all__ = [
    "LAST_RECOVERY",
    "SIMPLE",
    "STEMMED",
    "TEXT_VERSION",
    "Capabilities",
    "Connection",
    "LexicalIndex",
    "LexicalIndexError",
    "detect_lexical_index",
    "languages",
    "lexical_text",
    "searched_text",
    "without_stop_words",
]
