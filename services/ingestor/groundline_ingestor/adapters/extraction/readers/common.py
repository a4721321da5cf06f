"""What readers are given and give."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Limits", "Read", "ReadError", "clean"]


@dataclass(frozen=True)
class Limits:
    """Bounds of one file. `ocr_command` is the path of tesseract, empty where there is none."""

    max_pages: int = 5000
    max_unpacked_bytes: int = 256 * 1024**2
    max_image_pixels: int = 100_000_000
    memory_bytes: int = 2 * 1024**3
    seconds: float = 120.0
    ocr_command: str = ""
    ocr_languages: str = "eng"


@dataclass(frozen=True)
class Read:
    """A text, whether it is Markdown, the title the file gives itself, and headings that the text does not
    show: their level, title and start in code points."""

    text: str
    markdown: bool = False
    title: str = ""
    headings: Sequence[tuple[int, str, int]] = ()


class ReadError(Exception):
    """A file cannot be read: an UPPER_SNAKE reason, and the same for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def clean(text: str) -> str:
    """Without NUL, which PostgreSQL cannot store, and with halves of surrogate pairs joined or replaced."""
    text = text.replace("\x00", "")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
