"""Models of others that read a claim beside a passage: classifiers of pairs, or of the claim's words."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from groundline_reader.folder import CLAIM_LABELS, PASSAGE, ReaderError, checked_labels, session

_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_MAXIMUM_TOKENS: Final = 512
"""Maximum tokens of a pair, which models of the BERT family take; of a longer one the end is cut."""

_BATCH_TOKENS: Final = 4096
_CLAIM: Final = 1
"""Number of the claim in a pair: these models take the passage first."""

_WORD: Final = re.compile(r"\w+(?:[.,'’-]\w+)*")


class ClaimReading(NamedTuple):
    """Chances (0 to 1) that a passage supports, refutes and says nothing of a claim."""

    supports: float
    refutes: float
    unrelated: float
    words: tuple[str, ...] = ()
    """Words of the claim that the passage does not bear out, if the model tells them."""


class ClaimClassifier:
    """A model whose `labels.json` maps its classes, in their order, to supports, refutes and unrelated.

    `{"pair": [...]}` is a classifier of a passage and a claim, such as a cross-encoder for natural language
    inference; `{"token": [...]}` classifies each token, such as LettuceDetect. `passage` is the form in which
    it takes a passage, if that is not the passage alone. It may be used by several threads at once.
    """

    def __init__(self, folder: Path, threads: int = 1) -> None:
        """Check and load the model. Raises ReaderError."""
        self._kind, names, self._passage = checked_labels(folder)
        self._classes = [[place for place, each in enumerate(names) if each == one] for one in CLAIM_LABELS]
        self._count = len(names)
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._tokenizer.enable_truncation(_MAXIMUM_TOKENS)
            self._tokenizer.no_padding()
            self._session = session(folder, threads)
            self._names = [each.name for each in self._session.get_inputs()]
            self.read_claims([("a claim", "a passage")])
        except ReaderError:
            raise
        except Exception as error:  # of tokenizers and onnxruntime, which have no common class
            raise ReaderError(f"{folder} holds no reader: {error}") from error

    def read_claims(self, pairs: Sequence[tuple[str, str]]) -> list[ClaimReading]:
        """Read pairs of a claim and a passage; of a pair that is too long the longer text is cut."""
        encodings = self._tokenizer.encode_batch(
            [(self._passage.replace(PASSAGE, passage), claim) for claim, passage in pairs]
        )
        order = sorted(range(len(pairs)), key=lambda row: len(encodings[row].ids))
        found: dict[int, ClaimReading] = {}
        while order:
            count = max(1, _BATCH_TOKENS // (len(encodings[order[0]].ids) + 16))
            chosen, order = order[:count], order[count:]
            rows = [encodings[row] for row in chosen]
            for row, logits in zip(chosen, self._run(rows), strict=True):
                found[row] = self._reading(pairs[row][0], encodings[row], logits)
        return [found[row] for row in range(len(pairs))]

    def _run(self, rows: Sequence[Encoding]) -> NDArray[np.float32]:
        length = max(len(row.ids) for row in rows)
        inputs = {name: np.zeros((len(rows), length), np.int64) for name in _INPUTS}
        for place, row in enumerate(rows):
            inputs["input_ids"][place, : len(row.ids)] = row.ids
            inputs["attention_mask"][place, : len(row.ids)] = 1
            inputs["token_type_ids"][place, : len(row.ids)] = row.type_ids
        if unknown := [name for name in self._names if name not in inputs]:
            raise ReaderError(f"the model has an input that is not known: {', '.join(unknown)}")
        logits = self._session.run(None, {name: inputs[name] for name in self._names})[0]
        shape = (len(rows), self._count) if self._kind == "pair" else (len(rows), length, self._count)
        if logits.shape != shape:
            raise ReaderError(f"the model gives {logits.shape} where its labels ask for {shape}")
        return np.asarray(logits, np.float32)

    def _reading(self, claim: str, row: Encoding, logits: NDArray[np.float32]) -> ClaimReading:
        if self._kind == "pair":
            supports, refutes, unrelated = map(float, self._chances(logits[None])[0])
            return ClaimReading(supports, refutes, unrelated)
        inside = [place for place, part in enumerate(row.sequence_ids) if part == _CLAIM]
        if not inside:
            return ClaimReading(0.0, 0.0, 1.0)
        chances = self._chances(logits[inside])
        # A claim is borne out if all of it is.
        worst = chances[chances[:, 0].argmin()]
        wrong = [
            row.offsets[place]
            for place, chance in zip(inside, chances, strict=True)
            if chance[0] < max(chance[1:])
        ]
        return ClaimReading(float(worst[0]), float(worst[1]), float(worst[2]), _words(claim, wrong))

    def _chances(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the chances of supports, refutes and unrelated, a row for each row of logits."""
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        chances = powers / powers.sum(axis=-1, keepdims=True)
        return np.stack([chances[:, places].sum(axis=-1) for places in self._classes], axis=-1)


def _words(claim: str, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Return the words of a claim that spans touch."""
    return tuple(
        word.group()
        for word in _WORD.finditer(claim)
        if any(start < word.end() and end > word.start() for start, end in spans)
    )
