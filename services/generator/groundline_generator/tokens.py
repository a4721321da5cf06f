"""Tokens, counted without a tokenizer."""

__all__ = ["estimated_tokens"]

_CHARACTERS_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """About how many tokens a model reads: four characters each in ASCII, one and a half elsewhere, rounded
    up.

    Providers count differently; a budget that must hold needs a margin.
    """
    if text.isascii():
        return -(-len(text) // _CHARACTERS_PER_TOKEN)
    wide = sum(ord(character) > 0x24F for character in text)
    return -(-(len(text) - wide) // _CHARACTERS_PER_TOKEN) + -(-wide * 2 // 3)
