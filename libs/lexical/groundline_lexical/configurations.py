"""PostgreSQL's text search configurations, by which some backends drop stop words and stem."""

import logging
from functools import lru_cache
from typing import Final

from groundline_lexical.languages import SIMPLE, STEMMED

_WITHOUT: Final = frozenset({"polish"})
"""Languages of ours for which PostgreSQL 16 to 18 have no configuration."""

_log = logging.getLogger(__name__)


def configuration(language: str) -> str:
    """Return the name of the configuration in pg_catalog, safe in SQL; an unknown language has the simple
    one."""
    return language if language in STEMMED - _WITHOUT else SIMPLE


def warn_if_missing(language: str) -> None:
    """Log once in a process that a language with stemming is indexed without it."""
    if language in _WITHOUT:
        _warn(language)


@lru_cache
def _warn(language: str) -> None:
    _log.warning("PostgreSQL has no text search configuration for %s: it is indexed as simple", language)
