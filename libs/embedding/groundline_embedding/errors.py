"""Errors of the embedding package."""


class ModelError(Exception):
    """A model cannot be prepared or loaded. The text is one line and says what to do about it."""
