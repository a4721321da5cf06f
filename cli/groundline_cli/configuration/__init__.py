"""Configuration as code: what an installation is said to be, and what takes it there."""

from typing import Final

__all__ = ["SOURCE_KINDS"]

SOURCE_KINDS: Final = ("directory", "s3", "git", "postgres", "web", "feed", "imap", "mbox", "plugin")
"""Fields of a source of which one is set."""
