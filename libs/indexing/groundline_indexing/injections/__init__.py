"""Marks of prompt injection, by rules as data."""

from groundline_indexing.injections.marks import MARK, looks_injected, strings_of

__all__ = ["MARK", "looks_injected", "strings_of"]
