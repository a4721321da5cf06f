"""A small model that reads a passage for a question or a claim."""

from groundline_reader.pairs import MAXIMUM_TOKENS, Pair, encode, tokenizer
from groundline_reader.reader import CLAIM_LABELS, PairReading, Reader, ReaderError

__all__ = [
    "CLAIM_LABELS",
    "MAXIMUM_TOKENS",
    "Pair",
    "PairReading",
    "Reader",
    "ReaderError",
    "encode",
    "tokenizer",
]
