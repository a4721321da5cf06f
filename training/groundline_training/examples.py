"""Examples of one form, which the model is trained on, and pairs of texts in its tokens."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

__all__ = ["LABELS", "MAXIMUM_TOKENS", "Example", "Pair", "encode", "read_lines", "tokenizer", "write_lines"]

MAXIMUM_TOKENS: Final = 192
"""Tokens of a pair, above which the passage is cut."""
MAXIMUM_TEXT_TOKENS: Final = 64
LABELS: Final = ("supports", "refutes", "unrelated", "not_supported")
"""Labels of claims; the model tells the first three apart, and `not_supported` is the second or the third."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question or a claim, and a passage."""

    text: str
    passage: str
    source: str
    """Set, and after a colon the kind of example."""
    answerable: bool | None = None
    span: tuple[int, int] | None = None
    """Place of the answer, in characters of the passage."""
    label: str | None = None
    weight: float = 1.0
    held_out: bool = False


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
        head = [opening, *text.ids[:MAXIMUM_TEXT_TOKENS], closing]
        room = MAXIMUM_TOKENS - len(head) - 1
        found.append(Pair([*head, *passage.ids[:room], closing], len(head), passage.offsets[:room]))
    return found


def write_lines(examples: Iterable[Example], path: Path) -> None:
    """Write examples as JSON Lines, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text("".join(f"{json.dumps(asdict(one))}\n" for one in examples), encoding="utf-8")
    part.replace(path)


def read_lines(path: Path) -> list[Example]:
    """Read what `write_lines` wrote."""
    return [Example(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
