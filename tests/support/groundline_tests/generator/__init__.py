"""Doubles of the generator's providers, and short forms of its messages."""
