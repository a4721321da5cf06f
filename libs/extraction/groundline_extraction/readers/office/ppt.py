"""PPT, the format of PowerPoint 97 to 2003: the slides in their order, each with its title, texts and notes.

The file is a tree of records (MS-PPT 2.3.1). Each time it is saved, changed parts are appended, with a list
of where the parts now are; older ones are still there, and are not read.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError, clean, parsing
from groundline_extraction.readers.compound import CompoundFile, title_of

MAX_SAVES: Final = 1000
MAX_DEPTH: Final = 50
"""Maximum depth of groups of shapes."""

_EDIT, _PARTS = 0x0FF5, 0x1772
_SLIDE_LIST, _SLIDE, _SLIDE_ATOM = 0x0FF0, 0x03F3, 0x03EF
_DRAWING, _TEXT_BOX = 0x040C, 0xF00D
_KIND, _WIDE, _NARROW, _REFERENCE = 0x0F9F, 0x0FA0, 0x0FA8, 0x0F9E
_SLIDES, _NOTES = 0, 2
"""Kinds of lists of slides."""
_TITLES: Final = (0, 6)
_NOT_ENCRYPTED: Final = 0xE391C05F
_NOTE: Final = 2

type Record = tuple[int, int, int, int]
"""Type, instance, begin and end."""
type Text = tuple[int, str]
"""Kind of placeholder, and what stands there."""


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read each slide as a page. Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT, TOO_MANY_PAGES
    or DOCUMENT_TOO_LARGE."""
    with parsing("a sound document"):
        return _Presentation(CompoundFile(data), limits).read()


class _Presentation:
    def __init__(self, file: CompoundFile, limits: ReaderLimits) -> None:
        self._limits = limits
        user = file.read("Current User")
        mark, edit = struct.unpack_from("<II", user, 12)
        if mark != _NOT_ENCRYPTED:
            raise ReadError("ENCRYPTED_DOCUMENT", "the presentation needs a password")
        self._data = file.read("PowerPoint Document")
        self._title = title_of(file)
        self._parts, self._document = self._where(edit)

    def read(self) -> Read:
        lists = {
            instance: list(self._slides(begin, end))
            for kind, instance, begin, end in self._children(*self._part(self._document))
            if kind == _SLIDE_LIST
        }
        slides = lists.get(_SLIDES, [])
        if len(slides) > self._limits.max_pages:
            raise ReadError("TOO_MANY_PAGES", f"more than {self._limits.max_pages} slides")
        notes = {number: part for part, number, _ in lists.get(_NOTES, [])}
        builder = MarkdownBuilder(self._limits)
        for page, (part, _, outline) in enumerate(slides, 1):
            builder.page(page)
            texts, note = self._slide(part, outline)
            title = next((text for kind, text in texts if kind in _TITLES and text), "")
            builder.heading(2, title or f"Slide {page}")
            for kind, text in texts:
                if kind not in _TITLES:
                    lines = text.split("\n")
                    builder.paragraph("\n".join(f"- {line}" for line in lines) if len(lines) > 1 else text)
            noted = self._slide(notes[note], [])[0] if note in notes else []
            if said := [text for kind, text in noted if kind == _NOTE and text]:
                builder.heading(3, "Notes")
                for text in said:
                    builder.paragraph(text)
        return builder.read(title=self._title)

    def _where(self, edit: int) -> tuple[Mapping[int, int], int]:
        """Return where parts begin, those saved last first, and the number of the document's part."""
        parts: dict[int, int] = {}
        document = 0
        for _ in range(MAX_SAVES):
            kind, _, begin, _ = self._record(edit)
            if kind != _EDIT:
                raise ReadError("CORRUPT_DOCUMENT", "it does not say where its parts are")
            _, _, before, directory, named = struct.unpack_from("<5I", self._data, begin)
            document = document or named
            kind, _, at, end = self._record(directory)
            while kind == _PARTS and at + 4 <= end:
                [entry] = struct.unpack_from("<I", self._data, at)
                first, count = entry & 0xFFFFF, entry >> 20
                offsets = struct.unpack_from(f"<{count}I", self._data, at + 4)
                for number, offset in enumerate(offsets, first):
                    parts.setdefault(number, offset)
                at += 4 + 4 * count
            if not before:
                return parts, document
            edit = before
        raise ReadError("DOCUMENT_TOO_LARGE", f"saved more than {MAX_SAVES} times")

    def _record(self, at: int) -> Record:
        version, kind, size = struct.unpack_from("<HHI", self._data, at)
        return kind, version >> 4, at + 8, min(at + 8 + size, len(self._data))

    def _part(self, number: int) -> tuple[int, int]:
        _, _, begin, end = self._record(self._parts[number])
        return begin, end

    def _children(self, begin: int, end: int) -> Iterator[Record]:
        while begin + 8 <= end:
            kind, instance, start, stop = self._record(begin)
            yield kind, instance, start, min(stop, end)
            begin = stop

    def _slides(self, begin: int, end: int) -> Iterator[tuple[int, int, list[Text]]]:
        """Yield the part and the number of each slide, and the texts of its placeholders."""
        texts: list[Text] = []
        for record in self._children(begin, end):
            if record[0] == _SLIDE:
                part, _, _, number = struct.unpack_from("<4I", self._data, record[2])
                texts = []
                yield part, number, texts
            else:
                self._collect(record, texts, [])

    def _slide(self, part: int, outline: Sequence[Text]) -> tuple[list[Text], int]:
        """Return the texts of a slide, and the number of its notes."""
        texts: list[Text] = []
        note = 0
        for kind, _, begin, end in self._children(*self._part(part)):
            if kind == _SLIDE_ATOM:
                [note] = struct.unpack_from("<I", self._data, begin + 16)
            elif kind == _DRAWING:
                self._shapes(begin, end, texts, outline, 0)
        return [(kind, text) for kind, text in texts if text], note

    def _shapes(self, begin: int, end: int, texts: list[Text], outline: Sequence[Text], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ReadError("DOCUMENT_TOO_LARGE", f"shapes more than {MAX_DEPTH} deep")
        for kind, _, start, stop in self._children(begin, end):
            if kind == _TEXT_BOX:
                for record in self._children(start, stop):
                    self._collect(record, texts, outline)
            elif kind >> 12 == 0xF and self._data[start - 8] & 0xF == 0xF:
                self._shapes(start, stop, texts, outline, depth + 1)

    def _collect(self, record: Record, texts: list[Text], outline: Sequence[Text]) -> None:
        kind, _, begin, end = record
        if kind == _KIND:
            texts.append((struct.unpack_from("<I", self._data, begin)[0], ""))
        elif kind == _REFERENCE:
            texts.append(outline[struct.unpack_from("<I", self._data, begin)[0]])
        elif kind in (_WIDE, _NARROW) and texts:
            text = self._data[begin:end].decode("utf-16-le" if kind == _WIDE else "latin-1", "replace")
            lines = (" ".join(line.split()) for line in clean(text).replace("\x0b", " ").split("\r"))
            texts[-1] = texts[-1][0], "\n".join(filter(None, lines))
