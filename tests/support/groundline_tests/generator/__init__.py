"""Doubles of what the generator talks to, and short forms of its messages."""
