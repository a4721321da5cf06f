"""Checks of a release beside the one before it."""
