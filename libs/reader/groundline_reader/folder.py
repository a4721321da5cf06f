"""Folders of models: their checksums and labels."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

CLAIM_LABELS: Final = ("supports", "refutes", "unrelated")
KINDS: Final = ("claim", "pair", "token")
"""Models that `training/` wrote; others' classifiers of a passage and a claim; others' classifiers of
tokens."""
PASSAGE: Final = "{passage}"

_SUMS: Final = "SHA256SUMS"
_NEEDED: Final = frozenset({"model.onnx", "tokenizer.json", "labels.json"})


class ReaderError(Exception):
    """A folder that holds no reader, or a damaged one."""


class Labels(NamedTuple):
    """Map of a model's labels."""

    kind: str
    names: Sequence[str]
    """Labels of its classes, in their order."""
    passage: str
    """Form in which it takes a passage, such as the prompt that it was trained with."""


def checked_labels(folder: Path) -> Labels:
    """Return the map of a model's labels.

    Raises ReaderError unless the folder holds what its checksums say, with labels of this version.
    """
    try:
        sums = [line.split("  ", 1) for line in (folder / _SUMS).read_text(encoding="utf-8").splitlines()]
        if missing := _NEEDED.difference(name for _, name in sums):
            raise ReaderError(f"{folder} holds no reader: {_SUMS} does not name {', '.join(sorted(missing))}")
        for expected, name in sums:
            with (folder / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    raise ReaderError(f"{folder / name} is damaged: its checksum is not the one in {_SUMS}")
        labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReaderError(f"{folder} holds no reader: {error}") from error
    kinds = [kind for kind in KINDS if isinstance(labels, dict) and kind in labels]
    if len(kinds) != 1 or not isinstance(names := labels[kinds[0]], list):
        raise ReaderError(f"{folder} holds no reader: labels.json needs a list for one of {', '.join(KINDS)}")
    if unknown := [str(name) for name in names if name not in CLAIM_LABELS]:
        raise ReaderError(f"{folder} holds a reader with other labels: {', '.join(unknown)}")
    if CLAIM_LABELS[0] not in names or len(set(names)) == 1:
        raise ReaderError(f"{folder} holds a reader without the labels {CLAIM_LABELS[0]} and another")
    passage = labels.get("passage", PASSAGE)
    if not isinstance(passage, str) or passage.count(PASSAGE) != 1:
        raise ReaderError(f"{folder} holds no reader: passage in labels.json must have {PASSAGE} once")
    return Labels(kinds[0], names, passage)


def session(folder: Path, threads: int) -> "InferenceSession":
    """Load the model of a folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
