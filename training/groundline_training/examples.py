"""Examples of one form, which the model is trained on."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from groundline_reader import CLAIM_LABELS

LABELS: Final = (*CLAIM_LABELS, "not_supported")
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


def write_lines(examples: Iterable[Example], path: Path) -> None:
    """Write examples as JSON Lines, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text("".join(f"{json.dumps(asdict(one))}\n" for one in examples), encoding="utf-8")
    part.replace(path)


def read_lines(path: Path) -> list[Example]:
    """Read what `write_lines` wrote."""
    return [Example(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
