"""What readers are given and give."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["NO_HINTS", "Hints", "Read", "ReadError", "ReaderLimits", "clean", "one_line"]


@dataclass(frozen=True)
class ReaderLimits:
    """Bounds of one file. `ocr_data` is the folder of tesseract's languages, empty where there is none."""

    max_pages: int = 5000
    max_unpacked_bytes: int = 256 * 1024**2
    max_image_pixels: int = 100_000_000
    memory_bytes: int = 2 * 1024**3
    seconds: float = 120.0
    ocr_data: str = ""
    ocr_languages: str = "eng"

    def seconds_for(self, size: int) -> float:
        """The time that a file of so many bytes may take: one that is small has little to say."""
        return min(self.seconds, 20.0 + size / 20_000)


@dataclass(frozen=True)
class Hints:
    """What is known of a file besides its bytes. `is_guess`: nobody said that it is of this type; `depth`: in
    how many other files it is."""

    mime_type: str = ""
    charset: str = ""
    is_guess: bool = False
    depth: int = 0


NO_HINTS: Final = Hints()


@dataclass(frozen=True)
class Read:
    """A text, and what it is made of.

    `headings`: level, title and start, in code points; of a Markdown text that shows them they may be left
    out. `mime_type`: what it turned out to be, where that is not what it was taken for. `metadata`: what it
    says of itself.
    """

    text: str
    markdown: bool = False
    title: str = ""
    headings: Sequence[tuple[int, str, int]] = ()
    mime_type: str = ""
    metadata: Mapping[str, str | float] = field(default_factory=dict)


class ReadError(Exception):
    """A file cannot be read: an UPPER_SNAKE reason, and the same for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Without NUL, which PostgreSQL cannot store, and with halves of surrogate pairs joined or replaced."""
    text = text.replace("\x00", "")
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(text: str, most: int = 500) -> str:
    """Clean, with single spaces, for titles and names."""
    return " ".join(clean(text).split())[:most]
