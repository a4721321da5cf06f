"""Checks of a finished answer: its claims and citations, what contradicts its passages, and the verdict."""
