"""Small models that read a passage for a question or a claim."""

from pathlib import Path

from groundline_reader.claims import ClaimClassifier, ClaimReading
from groundline_reader.folder import CLAIM_LABELS, ReaderError, checked_labels
from groundline_reader.pairs import MAXIMUM_TOKENS, Pair, encode, tokenizer
from groundline_reader.reader import PairReading, Reader

__all__ = [
    "CLAIM_LABELS",
    "MAXIMUM_TOKENS",
    "ClaimClassifier",
    "ClaimReading",
    "Pair",
    "PairReading",
    "Reader",
    "ReaderError",
    "encode",
    "open_reader",
    "tokenizer",
]


def open_reader(folder: Path) -> Reader | ClaimClassifier:
    """Return the model of a folder: one that `training/` wrote, or another's. Raises ReaderError."""
    return Reader(folder) if checked_labels(folder).kind == "claim" else ClaimClassifier(folder)
