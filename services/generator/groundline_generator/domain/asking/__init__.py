"""Readers of what a question asks for, and of which sentences say it."""
