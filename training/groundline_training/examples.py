"""Examples of one form, which the model is trained on, and how they are encoded and stored."""

import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

__all__ = [
    "BUCKETS",
    "LABELS",
    "Encoded",
    "Example",
    "encode",
    "load",
    "read_lines",
    "save",
    "special",
    "tokenizer",
    "write_lines",
]

BUCKETS: Final = (64, 96, 128, 160, 192)
"""Lengths in tokens to which examples are padded; a longer one is cut."""
LABELS: Final = ("supports", "refutes", "unrelated", "not_supported")
"""Labels of claims; the model tells the first three apart, and `not_supported` is the second or the third."""
FIELDS: Final = ("ids", "offsets", "split", "answerable", "start", "end", "label", "weight", "source")


@dataclass(frozen=True, slots=True)
class Example:
    """A question or a claim, and a passage."""

    text: str
    passage: str
    source: str
    answerable: bool | None = None
    span: tuple[int, int] | None = None
    """Place of the answer, in characters of the passage."""
    label: str | None = None
    weight: float = 1.0
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Encoded:
    """Many examples as arrays; -1 stands for a target that an example does not have."""

    ids: NDArray[np.uint16]
    """Tokens of all examples, one after the other: [CLS] text [SEP] passage [SEP]."""
    offsets: NDArray[np.int64]
    """Where each example begins in `ids`, and where the last ends."""
    split: NDArray[np.int32]
    """Place of the first token of the passage in each example."""
    answerable: NDArray[np.int32]
    start: NDArray[np.int32]
    """First token of the answer; `end` is its last one."""
    end: NDArray[np.int32]
    label: NDArray[np.int32]
    weight: NDArray[np.float32]
    source: NDArray[np.int32]
    """Place in `sources`."""
    sources: tuple[str, ...]

    def __len__(self) -> int:
        """Return how many examples there are."""
        return len(self.split)

    def lengths(self) -> NDArray[np.int64]:
        """Return the number of tokens of each example."""
        return np.diff(self.offsets)


def tokenizer(model: Path) -> Tokenizer:
    """Return the tokenizer of the model's directory, which neither cuts nor pads."""
    found = Tokenizer.from_file(str(model / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    return found


def special(using: Tokenizer) -> tuple[int, int]:
    """Return the tokens that open and close a pair. Raises ValueError."""
    opening, closing = using.token_to_id("[CLS]"), using.token_to_id("[SEP]")
    if opening is None or closing is None:
        raise ValueError("the tokenizer has no [CLS] and [SEP]")
    return opening, closing


def encode(examples: Sequence[Example], using: Tokenizer) -> Encoded:
    """Encode the examples; texts are cut to 64 tokens, and a pair to the largest bucket."""
    texts = using.encode_batch([example.text for example in examples], add_special_tokens=False)
    passages = using.encode_batch([example.passage for example in examples], add_special_tokens=False)
    opening, closing = special(using)
    sources = tuple(sorted({example.source for example in examples}))
    pieces: list[list[int]] = []
    rows: list[tuple[int, int, int, int, int]] = []
    for example, text, passage in zip(examples, texts, passages, strict=True):
        head = [opening, *text.ids[:64], closing]
        room = BUCKETS[-1] - len(head) - 1
        answerable = -1 if example.answerable is None else int(example.answerable)
        start = end = -1
        if example.span is not None:
            inside = [
                place
                for place, (first, last) in enumerate(passage.offsets[:room])
                if first < example.span[1] and last > example.span[0]
            ]
            if inside:
                start, end = inside[0] + len(head), inside[-1] + len(head)
            elif answerable == 1:
                answerable = -1
        pieces.append([*head, *passage.ids[:room], closing])
        label = -1 if example.label is None else LABELS.index(example.label)
        rows.append((len(head), answerable, start, end, label))
    columns = np.array(rows, np.int32).reshape(-1, 5).T
    return Encoded(
        ids=np.concatenate([np.array(piece, np.uint16) for piece in pieces]),
        offsets=np.cumsum([0, *map(len, pieces)], dtype=np.int64),
        split=columns[0],
        answerable=columns[1],
        start=columns[2],
        end=columns[3],
        label=columns[4],
        weight=np.array([example.weight for example in examples], np.float32),
        source=np.array([sources.index(example.source) for example in examples], np.int32),
        sources=sources,
    )


def write_lines(examples: Sequence[Example], path: Path) -> None:
    """Write examples as JSON Lines."""
    path.write_text("".join(f"{json.dumps(asdict(example))}\n" for example in examples), encoding="utf-8")


def read_lines(path: Path) -> list[Example]:
    """Read what `write_lines` wrote."""
    return [Example(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def save(encoded: Encoded, path: Path) -> None:
    """Write the examples, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    arrays = {name: getattr(encoded, name) for name in FIELDS}
    with part.open("wb") as file:
        np.savez_compressed(file, **arrays, sources=np.array(json.dumps(encoded.sources)))
    part.replace(path)


def load(path: Path) -> Encoded:
    """Read what `save` wrote."""
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in FIELDS}
            return Encoded(**arrays, sources=tuple(json.loads(str(found["sources"]))))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise SystemExit(f"{path} does not hold examples ({error}): run prepare.py again") from error
