"""Tokens, counted without a tokenizer."""

import re

__all__ = ["estimated_tokens"]

_CHARACTERS_PER_TOKEN = 4
_WIDE = re.compile(r"[^\u0000-\u024f]+")
"""Runs of letters beyond Latin, and of signs; to look at each character in turn takes fifty times as long."""


def estimated_tokens(text: str) -> int:
    """About how many tokens a model reads: four characters each in ASCII, one and a half elsewhere, rounded
    up.

    Providers count differently; a budget that must hold needs a margin.
    """
    if text.isascii():
        return -(-len(text) // _CHARACTERS_PER_TOKEN)
    wide = sum(map(len, _WIDE.findall(text)))
    return -(-(len(text) - wide) // _CHARACTERS_PER_TOKEN) + -(-wide * 2 // 3)
