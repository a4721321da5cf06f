"""An exported reader, run with onnxruntime: windows over long passages, many pairs at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from groundline_training.examples import Pair, encode, tokenizer
from groundline_training.texts import sentence_spans

__all__ = ["Reader", "Reading", "windows"]

BATCH_TOKENS: Final = 4096
ANSWER_TOKENS: Final = 30
"""Maximum length of an answer."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of the model for a pair."""

    answerable: float
    """Logit."""
    answer: str
    """The best span of the passage."""
    claim: tuple[float, float, float]
    """Probabilities that the passage supports, refutes and says nothing of the claim."""


def windows(passage: str, characters: int = 620) -> list[str]:
    """Cut a passage into runs of sentences of at most `characters`, which overlap by a sentence."""
    spans = sentence_spans(passage)
    found: list[str] = []
    first = 0
    while first < len(spans):
        last = first
        while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= characters:
            last += 1
        found.append(passage[spans[first][0] : spans[last][1]])
        if last + 1 == len(spans):
            break
        first = max(first + 1, last)
    return found or [passage]


class Reader:
    """A folder that `export.py` wrote."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = tokenizer(folder)

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[Reading]:
        """Read pairs of a question or claim and a passage; what is longer than the model takes is cut."""
        rows = encode(pairs, self._tokenizer)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row].ids))
        found: dict[int, Reading] = {}
        while order:
            length = len(rows[order[0]].ids)
            count = max(1, BATCH_TOKENS // (length + 16))
            chosen, order = order[:count], order[count:]
            outputs = self._run([rows[row] for row in chosen])
            for number, row in enumerate(chosen):
                answerable, start, end, claim = (output[number] for output in outputs)
                first, last = (token - rows[row].split for token in _best(start, end))
                place = rows[row].offsets[first][0], rows[row].offsets[last][1]
                chances = np.exp(claim - claim.max())
                supports, refutes, unrelated = (float(value) for value in chances / chances.sum())
                found[row] = Reading(
                    float(answerable), pairs[row][1][slice(*place)], (supports, refutes, unrelated)
                )
        return [found[row] for row in range(len(rows))]

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


def _best(start: NDArray[np.float32], end: NDArray[np.float32]) -> tuple[int, int]:
    """Return the first and last token of the best answer of at most `ANSWER_TOKENS`."""
    both = start[:, None] + end[None]
    allowed = np.triu(np.ones_like(both, bool)) & ~np.triu(np.ones_like(both, bool), ANSWER_TOKENS)
    first, last = np.unravel_index(np.where(allowed, both, -np.inf).argmax(), both.shape)
    return int(first), int(last)
