"""Pairs of texts in the model's tokens, the same in training and in use."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

MAXIMUM_TOKENS: Final = 192
"""Tokens of a pair, above which the passage is cut."""
_MAXIMUM_TEXT_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and a passage in tokens."""

    ids: list[int]
    """Tokens of [CLS] text [SEP] passage [SEP]."""
    split: int
    """Place of the passage's first token."""
    offsets: list[tuple[int, int]]
    """Place of each token of the passage, in characters."""


def tokenizer(model: Path) -> Tokenizer:
    """Return the tokenizer of the model's directory, which neither cuts nor pads."""
    found = Tokenizer.from_file(str(model / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    return found


def encode(pairs: Sequence[tuple[str, str]], using: Tokenizer) -> list[Pair]:
    """Return the pairs in tokens, cut to what the model takes."""
    texts = using.encode_batch([text for text, _ in pairs], add_special_tokens=False)
    passages = using.encode_batch([passage for _, passage in pairs], add_special_tokens=False)
    opening, closing = using.encode("").ids
    found: list[Pair] = []
    for text, passage in zip(texts, passages, strict=True):
        head = [opening, *text.ids[:_MAXIMUM_TEXT_TOKENS], closing]
        room = MAXIMUM_TOKENS - len(head) - 1
        found.append(Pair([*head, *passage.ids[:room], closing], len(head), passage.offsets[:room]))
    return found
