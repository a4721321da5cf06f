"""Citation markers: in a stream of text, in documents, and in a finished answer."""

import re
from collections.abc import Sequence
from typing import Final

_MARKERS: Final = re.compile(r"[\[［【]\s?(\d{1,4}(?:\s?[,;，、]\s?\d{1,4}){0,9})\s?[\]］】]")
"""Pattern of every way that models mark sources: `[1]`, `[1, 2]`, and the full-width forms of both."""

_WRITTEN: Final = re.compile(r"\[(\d{1,4})\]")
SPACES: Final = re.compile(r"[ \t]{2,}")

# Ends of a text that may become a marker, an image or a code quote when more comes.
_UNFINISHED: Final = re.compile(
    r"(?:(?:!|[ \t]*)[\[［【][\d\s,;，、]{0,80}|[ \t]+|!|<[a-zA-Z]{0,7}|(?<!`)`{1,2})$"
)
_SPACED_MARKERS: Final = re.compile(rf"[ \t]*{_MARKERS.pattern}")
_IMAGES: Final = re.compile(
    r"!(?=\[)|<(?=(?:img|image|svg|picture|source|video|audio|iframe|embed|object|link|style|input)\b)",
    re.IGNORECASE,
)
"""Beginnings of what a front end fetches as soon as it shows it, in Markdown and in HTML."""
_CODE: Final = re.compile(r"```.*?(?:```|$)|`[^`\n]+`", re.DOTALL)


def without_markers(text: str) -> str:
    """Return a document's text without anything that would read as a citation, such as its own footnote
    marks."""
    return _SPACED_MARKERS.sub(lambda marker: marker.group() if _is_interval(_numbers(marker)) else "", text)


class MarkerFilter:
    """Filter that removes markers of passages that were not served, however the stream is cut; code is left
    alone.

    Markers are written `[1]`, whichever way the model wrote them; `[1, 2]` becomes `[1][2]`. What would be an
    image becomes text with a link, in code too: which backticks are code is for the front end to say, and an
    image on another host tells it, in its address, what a document made the model write there.
    """

    def __init__(self, numbers: frozenset[int]) -> None:
        self._numbers = numbers
        self._held = ""
        self._fence = ""
        self.unknown: set[int] = set()

    def feed(self, text: str) -> str:
        """Take the next piece; return the text that may be sent on, which never ends within a marker."""
        text = self._held + text
        held = _UNFINISHED.search(text)
        cut = held.start() if held else len(text)
        self._held = text[cut:]
        return self._filtered(text[:cut])

    def finish(self) -> str:
        """Return the rest when the stream has ended."""
        rest, self._held = self._held, ""
        return self._filtered(rest).rstrip()

    def _filtered(self, text: str) -> str:
        text = _IMAGES.sub(lambda begun: f"{begun.group()} ", text)
        pieces = re.split(r"(```|`|\n)", text)
        for index, piece in enumerate(pieces):
            if piece == "\n":
                # An inline quote ends with its line; otherwise one stray mark would switch the filter off.
                self._fence = "" if self._fence == "`" else self._fence
            elif piece in ("`", "```"):
                if not self._fence:
                    self._fence = piece
                elif self._fence == piece:
                    self._fence = ""
            elif not self._fence:
                pieces[index] = _SPACED_MARKERS.sub(self._known, piece)
        return "".join(pieces)

    def _known(self, marker: re.Match[str]) -> str:
        numbers = _numbers(marker)
        if _is_interval(numbers):
            return marker.group()
        known = [number for number in dict.fromkeys(numbers) if number in self._numbers]
        self.unknown.update(set(numbers) - self._numbers)
        if not known:
            return ""
        space = marker.group()[: len(marker.group()) - len(marker.group().lstrip(" \t"))]
        return space + "".join(f"[{number}]" for number in known)


def cites(answer: str, numbers: frozenset[int]) -> bool:
    """Tell whether an answer, as a model wrote it, marks any of these sources."""
    return any(
        number in numbers for marker in _MARKERS.finditer(masked(answer)) for number in _numbers(marker)
    )


def masked(answer: str) -> str:
    """Return the answer with brackets inside code made harmless; offsets stay."""
    return _CODE.sub(lambda code: code.group().replace("[", "(").replace("]", ")"), answer)


def unmarked(answer: str) -> tuple[str, list[re.Match[str]]]:
    """Return a finished answer with spaces in place of its markers, which keep every offset and let sentences
    end where they would without them, and the markers."""
    bare_code = masked(answer)
    markers = list(_WRITTEN.finditer(bare_code))
    return _WRITTEN.sub(lambda marker: " " * len(marker.group()), bare_code), markers


def _is_interval(numbers: Sequence[int]) -> bool:
    """Tell whether brackets hold an interval such as [0, 1]: no passage has the number 0."""
    return 0 in numbers and len(numbers) > 1


def _numbers(marker: re.Match[str]) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", marker.group(1))]
