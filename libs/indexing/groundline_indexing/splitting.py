"""Chunking by semantic-text-splitter, which releases the GIL while it counts characters, and by sentencex."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Protocol

import sentencex
import tree_sitter_c
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_python
import tree_sitter_rust
import tree_sitter_typescript
from groundline.v1 import collection_pb2
from groundline_extraction.formats import is_markdown
from groundline_extraction.texts import ExtractedText
from semantic_text_splitter import CodeSplitter, MarkdownSplitter, TextSplitter

from groundline_indexing.texts import Section

type TokenCounter = Callable[[Sequence[str]], Sequence[int]]
type Span = tuple[int, int]

_GRAMMARS: Final[Mapping[str, Callable[[], Any]]] = {
    "text/x-c": tree_sitter_c.language,
    "text/x-c++": tree_sitter_cpp.language,
    "text/x-go": tree_sitter_go.language,
    "text/x-java": tree_sitter_java.language,
    "text/x-javascript": tree_sitter_javascript.language,
    "text/x-python": tree_sitter_python.language,
    "text/x-rust": tree_sitter_rust.language,
    "text/x-tsx": tree_sitter_typescript.language_tsx,
    "text/x-typescript": tree_sitter_typescript.language_typescript,
}
# ISO 639-1, by the name of a collection's language; sentencex falls back to rules that are common to most.
_LANGUAGE_CODES: Final[Mapping[str, str]] = {
    "arabic": "ar",
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "greek": "el",
    "hungarian": "hu",
    "italian": "it",
    "norwegian": "no",
    "portuguese": "pt",
    "romanian": "ro",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
    "tamil": "ta",
    "turkish": "tr",
}

_WORD: Final = re.compile(r"\S+")
# The library takes half a minute for a run of 20,000 line ends.
_GAP: Final = re.compile(r"(?<!\s)\s{500,}")
# One line, or one that is underlined.
_ONLY_HEADING: Final = re.compile(r"[^\r\n]*+(?:\r\n?|\n)?+[=\-]*+\s*+")


# Places where a reader would begin: after a line, or after a sentence.
_BEGINNING: Final = re.compile(r"(?:(?<=\n)|(?<=[.!?…。！？]\s))(?=\S)")
_WORD_BEGINNING: Final = re.compile(r"(?<!\S)(?=\S)")

CODE_CHARACTERS: Final = 16_384
"""Maximum characters of source code that is parsed at once: for nonsense such as `a<b<a<b<` a grammar takes
the square of it in time and memory (16 Ki take a second, 1 Mi takes minutes and gigabytes)."""

MAX_CHARACTERS_PER_TOKEN: Final = 10
"""Maximum characters that count as one token; a long run without a space is one token to some models."""


class _Splitter(Protocol):
    def chunk_indices(self, text: str) -> Sequence[tuple[int, str]]: ...


class DocumentSplitter:
    """Splitter of all strategies, in characters and in tokens of the embedding model.

    Source code of a language with a known grammar is cut between its definitions by every strategy but words:
    it consists of neither headings nor sentences.
    """

    def __init__(self, count_tokens: TokenCounter) -> None:
        self._count_tokens = count_tokens

    def split(
        self, extraction: ExtractedText, chunking: collection_pb2.ChunkingSettings, language: str
    ) -> Sequence[Section]:
        """Cut a text into sections of at most `chunk_size` units, in order, stripped, none of them blank.

        Recursive chunks overlap across headings too, as far as `chunk_size` leaves room. Those of a parent
        are all together.

        A single word (or with characters of several tokens, a single character) may be longer in tokens. In
        characters no section is longer than MAX_CHARACTERS_PER_TOKEN for each of its tokens.
        """
        text = extraction.text
        if chunking.strategy == collection_pb2.CHUNKING_STRATEGY_PARENT_CHILD:
            return [child for parent in self._parents(extraction, chunking) for child in parent]
        spans = list(_bounded(text, self._spans(extraction, chunking, language), chunking))
        if chunking.strategy == collection_pb2.CHUNKING_STRATEGY_RECURSIVE:
            starts = [self._start_of_overlap(text, *two, chunking) for two in pairwise(spans)]
            return [
                Section(text[first:end], first, end, lead=start - first)
                for first, (start, end) in zip(
                    [*(start for start, _ in spans[:1]), *starts], spans, strict=True
                )
            ]
        return [Section(text[start:end], start, end) for start, end in spans]

    def _parents(
        self, extraction: ExtractedText, chunking: collection_pb2.ChunkingSettings
    ) -> Iterator[Sequence[Section]]:
        """Yield the chunks of each parent, which is a section, or a part of one that is too long."""
        text = extraction.text
        whole = collection_pb2.ChunkingSettings(
            strategy=collection_pb2.CHUNKING_STRATEGY_SECTIONS,
            chunk_size=chunking.parent_size,
            chunk_overlap=0,
            unit=chunking.unit,
        )
        splitter = self._splitter(extraction.mime_type, chunking)
        for start, end in _bounded(text, self._spans(extraction, whole, ""), whole):
            cuts = self._fitting(text, start, end, chunking, splitter)
            spans = list(_bounded(text, cuts, chunking))
            yield [
                Section(
                    text[first:last],
                    first,
                    last,
                    siblings_before=position,
                    siblings_after=len(spans) - 1 - position,
                )
                for position, (first, last) in enumerate(spans)
            ]

    def _start_of_overlap(
        self, text: str, before: Span, span: Span, chunking: collection_pb2.ChunkingSettings
    ) -> int:
        """Return where a chunk begins that is to repeat the end of the one before: at its own beginning if it
        overlaps already, or has no room."""
        start, end = span
        room = chunking.chunk_size - self._size(text[start:end], chunking)
        units = min(chunking.chunk_overlap, room)
        if start < before[1] or units <= 0:
            return start
        per_unit = (
            1 if chunking.unit == collection_pb2.CHUNK_SIZE_UNIT_CHARACTERS else MAX_CHARACTERS_PER_TOKEN
        )
        first = max(before[0] + 1, before[1] - units * per_unit)
        starts = [match.start() for match in _WORD_BEGINNING.finditer(text, first, before[1])]
        fitting = starts[
            bisect_left(starts, True, key=lambda at: self._size(text[at:start], chunking) <= units) :
        ]
        if not fitting:
            return start
        beginning = _BEGINNING.search(text, fitting[0], before[1])
        return beginning.start() if beginning else fitting[0]

    def _spans(
        self, extraction: ExtractedText, chunking: collection_pb2.ChunkingSettings, language: str
    ) -> Iterator[Span]:
        text = extraction.text
        whole = (0, len(text))
        match chunking.strategy:
            case collection_pb2.CHUNKING_STRATEGY_WORDS:
                return self._packed(text, list(_words(text, *whole)), chunking)
            case collection_pb2.CHUNKING_STRATEGY_SENTENCES if extraction.mime_type not in _GRAMMARS:
                return self._packed(text, list(_sentences(text, language)), chunking)
            case collection_pb2.CHUNKING_STRATEGY_SECTIONS if extraction.headings:
                return self._sections(extraction, chunking)
            case _ if extraction.mime_type in _GRAMMARS:
                return self._code(extraction, chunking)
            case _:
                return self._cut(text, *whole, self._splitter(extraction.mime_type, chunking))

    def _code(self, extraction: ExtractedText, chunking: collection_pb2.ChunkingSettings) -> Iterator[Span]:
        text, splitter = extraction.text, self._splitter(extraction.mime_type, chunking)
        most = max(CODE_CHARACTERS, chunking.chunk_size)
        start = 0
        while start < len(text):
            end = _end_of_code(text, start, most)
            yield from self._cut(text, start, end, splitter)
            start = end

    def _splitter(self, mime_type: str, chunking: collection_pb2.ChunkingSettings) -> _Splitter:
        size, overlap = chunking.chunk_size, chunking.chunk_overlap
        grammar = _GRAMMARS.get(mime_type)
        kind: Any = MarkdownSplitter if is_markdown(mime_type) else TextSplitter
        splitter: _Splitter
        if chunking.unit == collection_pb2.CHUNK_SIZE_UNIT_CHARACTERS:
            splitter = CodeSplitter(grammar(), size, overlap) if grammar else kind(size, overlap)
        elif grammar:
            splitter = CodeSplitter.from_callback(grammar(), self._tokens, size, overlap)
        else:
            splitter = kind.from_callback(self._tokens, size, overlap)
        return splitter

    def _cut(self, text: str, begin: int, end: int, splitter: _Splitter) -> Iterator[Span]:
        for first, last in _written(text, begin, end):
            for start, cut in splitter.chunk_indices(text[first:last]):
                yield _trimmed(text, first + start, first + start + len(cut))

    def _sections(
        self, extraction: ExtractedText, chunking: collection_pb2.ChunkingSettings
    ) -> Iterator[Span]:
        """Yield the spans from heading to heading; one without a text of its own stays with the next."""
        text = extraction.text
        splitter = self._splitter(extraction.mime_type, chunking)
        starts = sorted({heading.start for heading in extraction.headings})
        begin = 0
        for start, end in pairwise([0, *starts, len(text)]):
            if end < len(text) and (start or starts[0] == 0) and _ONLY_HEADING.fullmatch(text, start, end):
                continue
            begin, first = end, begin
            yield from self._fitting(text, first, end, chunking, splitter)

    def _fitting(
        self, text: str, start: int, end: int, chunking: collection_pb2.ChunkingSettings, splitter: _Splitter
    ) -> Iterator[Span]:
        start, end = _trimmed(text, start, end)
        if self._size(text[start:end], chunking) <= chunking.chunk_size:
            yield start, end
        else:
            yield from self._cut(text, start, end, splitter)

    def _packed(
        self, text: str, units: Sequence[Span], chunking: collection_pb2.ChunkingSettings
    ) -> Iterator[Span]:
        """Pack as many whole units as fit, then again from the first that lies within the overlap.

        A unit that is too long alone is cut as the recursive strategy would.
        """
        splitter = self._splitter("text/plain", chunking)
        first = 0
        while first < len(units):
            start, end = units[first]
            if self._size(text[start:end], chunking) > chunking.chunk_size:
                yield from self._cut(text, start, end, splitter)
                first += 1
                continue
            past = self._last_fitting(text, units, first, chunking) + 1
            end = units[past - 1][1]
            yield start, end
            if past == len(units):
                return
            first = self._first_of_overlap(text, units, first, past, chunking)

    def _last_fitting(
        self, text: str, units: Sequence[Span], first: int, chunking: collection_pb2.ChunkingSettings
    ) -> int:
        """Return the index of the last unit that still fits behind `first`, which fits alone."""
        start = units[first][0]

        def fits(last: int) -> bool:
            return self._size(text[start : units[last][1]], chunking) <= chunking.chunk_size

        # A unit has at least one character, so size bounds the search in either unit of measure but for
        # tokens of several words, which no tokenizer makes.
        low, high = first, min(first + chunking.chunk_size, len(units) - 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low

    def _first_of_overlap(
        self,
        text: str,
        units: Sequence[Span],
        first: int,
        past: int,
        chunking: collection_pb2.ChunkingSettings,
    ) -> int:
        """Return where the next chunk begins: after `first`, no further back than the overlap allows, and so
        that the unit at `past` fits with what is repeated before it."""
        end = units[past - 1][1]
        begin = past
        while (
            begin - 1 > first
            and self._size(text[units[begin - 1][0] : end], chunking) <= chunking.chunk_overlap
            and self._size(text[units[begin - 1][0] : units[past][1]], chunking) <= chunking.chunk_size
        ):
            begin -= 1
        return begin

    def _size(self, text: str, chunking: collection_pb2.ChunkingSettings) -> int:
        return len(text) if chunking.unit == collection_pb2.CHUNK_SIZE_UNIT_CHARACTERS else self._tokens(text)

    def _tokens(self, text: str) -> int:
        return self._count_tokens([text])[0]


def _bounded(text: str, spans: Iterable[Span], chunking: collection_pb2.ChunkingSettings) -> Iterator[Span]:
    """Yield the spans that are not blank, in pieces no longer in characters than a chunk may be."""
    is_in_tokens = chunking.unit == collection_pb2.CHUNK_SIZE_UNIT_TOKENS
    most = chunking.chunk_size * (MAX_CHARACTERS_PER_TOKEN if is_in_tokens else 1)
    pieces = (piece for start, end in spans for piece in _pieces(text, start, end, most))
    return ((start, end) for start, end in pieces if text[start:end].strip())


def _pieces(text: str, start: int, end: int, most: int) -> Iterator[Span]:
    """Cut a span into pieces of at most `most` characters, between words if possible."""
    while end - start > most:
        cut = max(text.rfind(gap, start + most // 2, start + most) for gap in " \n")
        cut = start + most if cut < 0 else cut
        yield _trimmed(text, start, cut)
        start, end = _trimmed(text, cut, end)
    yield start, end


def _end_of_code(text: str, start: int, most: int) -> int:
    """Return where a piece of source code ends: at the last blank line, else line, of its second half."""
    if len(text) - start <= most:
        return len(text)
    found = (text.rfind(gap, start + most // 2, start + most) for gap in ("\n\n", "\n"))
    return next((place + 1 for place in found if place >= 0), start + most)


def _written(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans between long runs of white space."""
    for gap in _GAP.finditer(text, start, end):
        yield start, gap.start()
        start = gap.end()
    yield start, end


def _words(text: str, start: int, end: int) -> Iterator[Span]:
    return (match.span() for match in _WORD.finditer(text, start, end))


def _sentences(text: str, language: str) -> Iterator[Span]:
    code = _LANGUAGE_CODES.get(language, "en")
    for found in sentencex.get_sentence_boundaries(code, text):
        start, end = _trimmed(text, found["start_index"], found["end_index"])
        if start < end:
            yield start, end


def _trimmed(text: str, start: int, end: int) -> Span:
    """Return a span without white space at both ends."""
    cut = text[start:end]
    start += len(cut) - len(cut.lstrip())
    return start, max(start, start + len(cut.strip()))
