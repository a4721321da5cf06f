"""Errors of the lexical package."""


class LexicalIndexError(Exception):
    """The server offers no lexical index to use. The text is one line and says what to do about it."""
