"""The exported model, run with onnxruntime."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from groundline_reader.claims import ClaimReading
from groundline_reader.folder import CLAIM_LABELS, ReaderError, checked_labels, session
from groundline_reader.pairs import Pair, encode, tokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_BATCH_TOKENS: Final = 4096
_ANSWER_TOKENS: Final = 30
"""Maximum length of an answer."""


@dataclass(frozen=True, slots=True)
class PairReading:
    """Result of the model for a pair."""

    answerable: float
    """Log-odds that the passage answers the question."""
    answer: str
    """The span of the passage that answers best."""
    claim: tuple[float, float, float]
    """Probabilities that the passage supports, refutes and says nothing of the claim."""


class Reader:
    """A model in a folder that `groundline_training.export` wrote.

    The weights are loaded at the first reading. It may be used by several threads at once.
    """

    def __init__(self, folder: Path, threads: int = 1) -> None:
        """Check the folder. Raises ReaderError."""
        self._folder = folder
        self._threads = threads
        labels = checked_labels(folder)
        if labels.kind != "claim" or tuple(labels.names) != CLAIM_LABELS:
            raise ReaderError(f"{folder} holds a reader with other labels: {', '.join(labels.names)}")

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        """Read pairs of a question or claim and a passage; a pair that is longer than the model takes is
        cut."""
        rows = encode(pairs, self._tokenizer)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row].ids))
        found: dict[int, PairReading] = {}
        while order:
            length = len(rows[order[0]].ids)
            count = max(1, _BATCH_TOKENS // (length + 16))
            chosen, order = order[:count], order[count:]
            outputs = self._run([rows[row] for row in chosen])
            for number, row in enumerate(chosen):
                answerable, start, end, claim = (output[number] for output in outputs)
                chances = np.exp(claim - claim.max())
                supports, refutes, unrelated = (float(value) for value in chances / chances.sum())
                answer = _answer(rows[row], pairs[row][1], start, end)
                found[row] = PairReading(float(answerable), answer, (supports, refutes, unrelated))
        return [found[row] for row in range(len(rows))]

    def read_claims(self, pairs: Sequence[tuple[str, str]]) -> list[ClaimReading]:
        """Read pairs of a claim and a passage."""
        return [ClaimReading(*reading.claim) for reading in self.read(pairs)]

    def run_length(self, pair: tuple[str, str], tokens: int, count: int) -> None:
        """Read one pair `count` times at once, cut to `tokens` tokens; for timing."""
        (one,) = encode([pair], self._tokenizer)
        self._run([Pair(one.ids[:tokens], one.split, [])] * count)

    def _run(self, rows: Sequence[Pair]) -> list[NDArray[np.float32]]:
        length = max(len(row.ids) for row in rows)
        inputs = np.zeros((3, len(rows), length), np.int64)
        for place, row in enumerate(rows):
            inputs[0, place, : len(row.ids)] = row.ids
            inputs[1, place, : len(row.ids)] = 1
            inputs[2, place, row.split : len(row.ids)] = 1
        names = ("input_ids", "attention_mask", "token_type_ids")
        feed = dict(zip(names, inputs, strict=True))
        return list(self._session.run(["answerable", "start", "end", "claim"], feed))

    @cached_property
    def _session(self) -> "InferenceSession":
        return session(self._folder, self._threads)

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        return tokenizer(self._folder)


def _answer(row: Pair, passage: str, start: NDArray[np.float32], end: NDArray[np.float32]) -> str:
    """Return the best span of at most `_ANSWER_TOKENS`; empty if the passage has no token."""
    if not row.offsets:
        return ""
    inside = slice(row.split, row.split + len(row.offsets))
    both = start[inside, None] + end[None, inside]
    allowed = np.triu(np.ones_like(both, bool)) & ~np.triu(np.ones_like(both, bool), _ANSWER_TOKENS)
    first, last = np.unravel_index(np.where(allowed, both, -np.inf).argmax(), both.shape)
    return passage[row.offsets[first][0] : row.offsets[last][1]]
