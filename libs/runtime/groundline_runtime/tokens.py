"""Tokens, counted without a tokenizer."""

import re

__all__ = ["estimated_tokens"]

_CHARACTERS_PER_TOKEN = 4
# Runs of letters beyond Latin, and of symbols; looking at each character in turn takes fifty times as long.
_DENSE = re.compile(r"[^\u0000-\u024f]+")


def estimated_tokens(text: str) -> int:
    """About how many tokens a model reads: one for four Latin characters, two for three of any other script.

    Rounded up. Tokenizers differ from each other, so a budget that must hold needs a margin.
    """
    if text.isascii():
        return -(-len(text) // _CHARACTERS_PER_TOKEN)
    dense = sum(map(len, _DENSE.findall(text)))
    return -(-(len(text) - dense) // _CHARACTERS_PER_TOKEN) + -(-dense * 2 // 3)
