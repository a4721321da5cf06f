"""Checks of `groundline doctor`: an installation as its users see it, and its database."""
