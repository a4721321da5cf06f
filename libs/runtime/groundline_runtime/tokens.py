"""Estimates of token counts, without a tokenizer."""

import re
from typing import Final

_CHARACTERS_PER_TOKEN: Final = 4
# Runs of letters beyond Latin, and of symbols; testing each character in turn takes fifty times as long.
_DENSE: Final = re.compile(r"[^\u0000-\u024f]+")


def estimated_tokens(text: str) -> int:
    """Estimate how many tokens a model reads: one for four Latin characters, two for three of any other
    script.

    Rounded up. Tokenizers differ from each other, so a budget that must hold needs a margin.
    """
    if text.isascii():
        return -(-len(text) // _CHARACTERS_PER_TOKEN)
    dense = sum(map(len, _DENSE.findall(text)))
    return -(-(len(text) - dense) // _CHARACTERS_PER_TOKEN) + -(-dense * 2 // 3)
