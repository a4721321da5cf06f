"""Preparation of documents as chunks ready to be embedded; CPU work, without a store."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import BinaryIO, Final

from groundline.v1 import collection_pb2, document_pb2
from groundline_contracts import limits_of
from groundline_embedding import Embedders
from groundline_extraction.descriptions import kept_pictures
from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.front_matter import front_matter
from groundline_extraction.members import FoundMember, MemberSpool
from groundline_extraction.ocr import find_ocr_data
from groundline_extraction.readers.common import PicturePart, ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.segments import kept_segments
from groundline_extraction.spooling import Spool, open_spool_file
from groundline_extraction.texts import (
    MEMBER_MARK,
    PAGE_BREAK,
    ExtractedText,
    Heading,
    TextSegment,
    has_pages,
    last_part,
)
from groundline_lexical import lexical_text
from groundline_signatures import signature

from groundline_indexing.collections import (
    StoredCollection,
    effective_chunking,
    effective_mode,
    running_model,
)
from groundline_indexing.documents import DocumentVersion, HandedIn
from groundline_indexing.hashes import content_hash, ingestion_hash, input_hash
from groundline_indexing.settings import IndexingSettings
from groundline_indexing.splitting import DocumentSplitter
from groundline_indexing.texts import (
    PreparedChunk,
    Section,
    Series,
    enclosing,
    heading_trails,
    open_table_head,
    pages_of,
    structural_context,
    table_heads_at,
)

_GENERATED_URI: Final = "sha256:"
_URI: Final = limits_of(document_pb2.DocumentInput, "uri")
MAX_TITLE_CHARACTERS: Final = 500

type OnStage = Callable[[document_pb2.IngestionState.ValueType], None]
"""Told of each stage as it begins, in the thread that works."""


def identify(given: GivenDocument, collection: StoredCollection) -> HandedIn:
    """Return the document with uri, hash and front matter, and its version."""
    digest = given.content_hash or content_hash(given.content)
    own = front_matter(given)
    title = own.get("title")
    given = replace(
        given,
        content_hash=digest,
        uri=given.uri or f"{_GENERATED_URI}{digest.hex()}",
        title=given.title or (title[:MAX_TITLE_CHARACTERS] if isinstance(title, str) else ""),
        metadata={**own, **given.metadata},
    )
    return HandedIn(given, version_of(given, collection))


def version_of(given: GivenDocument, collection: StoredCollection) -> DocumentVersion:
    """Return the version of a document that `identify` completed under a collection's settings, as far as it
    is known before the text is read."""
    hashed = input_hash(given, collection.settings.pictures)
    return DocumentVersion(
        uri=given.uri,
        source_type=given.source_type,
        title=given.title or last_part(given.uri),
        mime_type=given.mime_type,
        content_hash=given.content_hash,
        input_hash=hashed,
        ingestion_hash=ingestion_hash(hashed, collection.settings),
        size_bytes=_size(given.content),
        metadata=given.metadata,
        allowed_principals=given.allowed_principals,
        container_uri=given.container_uri,
    )


def undescribed(
    version: DocumentVersion, given: GivenDocument, collection: StoredCollection
) -> DocumentVersion:
    """Return the version of a document some of whose pictures are not described: as of a collection that
    describes none."""
    hashed = input_hash(given, collection_pb2.PictureSettings())
    return replace(version, input_hash=hashed, ingestion_hash=ingestion_hash(hashed, collection.settings))


def members_of(
    container: DocumentVersion, found: Sequence[FoundMember], collection: StoredCollection
) -> Sequence[HandedIn]:
    """Return the files within a document as documents of its job, with its metadata and principals."""

    def member(one: FoundMember) -> HandedIn:
        given = GivenDocument(
            one.content,
            uri=member_uri(container.uri, one.path),
            mime_type=one.mime_type,
            source_type=container.source_type,
            metadata=container.metadata,
            allowed_principals=container.allowed_principals,
            container_uri=member_uri(container.uri, one.container),
        )
        return replace(identify(given, collection), failure=one.failure)

    return [member(one) for one in found]


def member_uri(uri: str, path: str) -> str:
    """Return the uri of a file within a document, by its path there; the document's own if that is empty. One
    that is longer than a uri may be is replaced by a name made from its hash."""
    if not path:
        return uri
    whole = f"{uri}{MEMBER_MARK}{path}"
    if len(whole) <= _URI.max_length and len(whole.encode()) <= _URI.max_bytes:
        return whole
    return f"{_GENERATED_URI}{content_hash(whole).hex()}"


@dataclass(frozen=True, slots=True)
class PartStart:
    """Where a part of a text begins, and what it begins within."""

    offset: int = 0
    headings: tuple[Heading, ...] = ()
    """Headings that enclose it."""
    pages: int = 0
    """Pages above it."""
    table_head: str = ""
    """First row of the table that it begins within."""

    def after(self, extraction: ExtractedText, end: int) -> "PartStart":
        """Return the start of the part that follows `end` in the text that begins here."""
        inside = (heading for heading in extraction.headings if heading.start < end)
        return PartStart(
            self.offset + end,
            enclosing((*self.headings, *inside)),
            self.pages + extraction.text.count(PAGE_BREAK, 0, end),
            open_table_head(extraction.text[:end], self.table_head),
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document, or a part of a long one, with its chunks and the text they were cut from."""

    version: DocumentVersion
    chunks: Sequence[PreparedChunk]
    extraction: ExtractedText
    start: PartStart = PartStart()


class Preparation:
    """Extraction, chunking and contextualization."""

    def __init__(
        self,
        extractor: DocumentExtractor,
        splitter_of: Callable[[StoredCollection], DocumentSplitter],
        *,
        max_document_bytes: int = 512 * 1024**2,
        max_chunks: int = 400_000,
        spool_directory: Path | None = None,
    ) -> None:
        """Take the directory that long texts are put into while they are worked on, and the limits of one
        document."""
        self._extractor = extractor
        self._splitter_of = splitter_of
        self.max_document_bytes = max_document_bytes
        self._max_chunks = max_chunks
        self._spool_directory = spool_directory

    def open_spool_file(self) -> BinaryIO:
        """Open an empty file for a content that is on its way. Close it when done."""
        return open_spool_file(self._spool_directory)

    def keep_pictures(self) -> Spool[PicturePart]:
        """Return an empty spool for the pictures of a document. Close it when done."""
        return kept_pictures(self._spool_directory)

    def read(
        self,
        given: GivenDocument,
        version: DocumentVersion,
        *,
        client: str = "",
        members: MemberSpool | None = None,
        pictures: Spool[PicturePart] | None = None,
    ) -> tuple[Spool[TextSegment], DocumentVersion]:
        """Return the document's text and its version with title and type. With `members` the files within it
        are put there, and with `pictures` its pictures. Raises IngestionError."""
        if version.size_bytes > self.max_document_bytes:
            raise IngestionError(
                document_pb2.INGESTION_STATE_EXTRACTING,
                "DOCUMENT_TOO_LARGE",
                f"{version.size_bytes} bytes; the maximum is {self.max_document_bytes}",
            )
        stream = self._extractor.read(given, client=client, members=members, pictures=pictures)
        segments = kept_segments(self._spool_directory)
        first_heading = ""
        try:
            with closing(stream.segments):
                for segment in stream.segments:
                    if segment.start == 0 and segment.headings:
                        first_heading = segment.headings[0].title
                    segments.append(segment)
        except BaseException:
            segments.close()
            raise
        title = given.title or stream.title or first_heading or version.title
        return segments, replace(version, title=title, mime_type=stream.mime_type)

    def chunk(
        self,
        segments: Series[TextSegment],
        version: DocumentVersion,
        collection: StoredCollection,
        on_stage: OnStage = lambda stage: None,
    ) -> Iterator[Prepared]:
        """Yield the chunks of each segment of a text. Raises IngestionError, also between segments.

        If a segment does not end with its section, its last chunk is cut again, together with the next
        segment, so that chunks continue and overlap across the border.
        """
        chunking, language = effective_chunking(collection.settings), collection.settings.lexical.language
        splitter = self._splitter_of(collection)
        chunk_count, start, carried = 0, PartStart(), TextSegment("")
        following = iter(segments)
        segment = next(following, None)
        while segment is not None:
            on_stage(document_pb2.INGESTION_STATE_CHUNKING)
            coming = next(following, None)
            extraction = ExtractedText(
                carried.text + segment.text,
                version.mime_type,
                tuple(
                    replace(heading, start=heading.start - start.offset)
                    for heading in (*carried.headings, *segment.headings)
                ),
            )
            sections = splitter.split(extraction, chunking, language)
            end = len(extraction.text)
            if coming is not None and sections and _goes_on(coming, sections[-1]):
                # A parent is cut again as a whole.
                place = len(sections) - 1 - sections[-1].siblings_before
                if place:
                    end = sections[place].start
                    sections = sections[:place]
            chunk_count += len(sections)
            if chunk_count > self._max_chunks:
                raise IngestionError(
                    document_pb2.INGESTION_STATE_CHUNKING,
                    "TOO_MANY_CHUNKS",
                    f"more than {self._max_chunks} chunks, the maximum of a document",
                )
            on_stage(document_pb2.INGESTION_STATE_CONTEXTUALIZING)
            if sections:  # a segment may be blank
                chunks = prepared_chunks(extraction, sections, version, collection, start)
                yield Prepared(version, chunks, extraction, start)
            carried = TextSegment(
                extraction.text[end:],
                start.offset + end,
                tuple(
                    replace(heading, start=heading.start + start.offset)
                    for heading in extraction.headings
                    if heading.start >= end
                ),
            )
            start = start.after(extraction, end)
            if not carried.text and coming is not None and not coming.text.startswith("|"):
                start = replace(start, table_head="")  # the table ended with the segment
            segment = coming


def _goes_on(coming: TextSegment, last: Section) -> bool:
    """Return whether the text that follows belongs to the last chunk as well."""
    begins_section = bool(coming.headings) and coming.headings[0].start == coming.start
    # A part that begins within a code fence would be taken for text, and the text behind the fence for code.
    return not begins_section and not any(fence in last.text for fence in ("```", "~~~"))


def prepared_chunks(
    extraction: ExtractedText,
    sections: Sequence[Section],
    version: DocumentVersion,
    collection: StoredCollection,
    start: PartStart = PartStart(),
) -> list[PreparedChunk]:
    """Give sections their contexts and their offsets in the whole text."""
    uri = shown_uri(version.uri)
    contexts: Iterable[str]
    if effective_mode(collection.settings) == collection_pb2.CONTEXTUALIZATION_MODE_NONE:
        contexts = repeat("", len(sections))
    else:
        outside = [replace(heading, start=-1) for heading in start.headings]
        starts = [section.own_start for section in sections]
        trails = heading_trails((*outside, *extraction.headings), starts)
        heads = table_heads_at(extraction.text, starts, start.table_head)
        contexts = (
            "\n".join(filter(None, (structural_context(version.title, uri, trail), head)))
            for trail, head in zip(trails, heads, strict=True)
        )
    pages: Iterable[tuple[int, int]] = repeat((0, 0), len(sections))
    if start.pages or has_pages(extraction):
        pages = pages_of(extraction.text, sections, start.pages)
    return [
        PreparedChunk(
            replace(section, start=start.offset + section.start, end=start.offset + section.end),
            context,
            lexical_text(section.text, context=context, title=version.title, uri=uri),
            # The chunks of a parent are answered with all of it: of several hits, one is enough.
            signature(_parent_text(extraction.text, sections, position)),
            *of_section,
        )
        for position, (section, context, of_section) in enumerate(zip(sections, contexts, pages, strict=True))
    ]


def _parent_text(text: str, sections: Sequence[Section], position: int) -> str:
    """Return the text of the parent that a section belongs to, or its own without a parent."""
    section = sections[position]
    first = sections[position - section.siblings_before]
    last = sections[position + section.siblings_after]
    return text[first.start : last.end]


def shown_uri(uri: str) -> str:
    """Return a uri, but "" for a generated one, which would only put digits into the index."""
    return "" if uri.startswith(_GENERATED_URI) else uri


def _size(content: str | bytes | FileContent) -> int:
    match content:
        case FileContent():
            return content.size
        case str():
            return len(content.encode())
        case _:
            return len(content)


def preparation_by(settings: IndexingSettings, sandbox: Sandbox, embedders: Embedders) -> Preparation:
    """Return the preparation that the settings describe; tokens are those of a collection's model."""

    def splitter(collection: StoredCollection) -> DocumentSplitter:
        return DocumentSplitter(running_model(collection, embedders).count_tokens)

    return Preparation(
        DocumentExtractor(sandbox, max_whole_bytes=settings.max_whole_document_bytes),
        splitter,
        max_document_bytes=settings.max_document_bytes,
        max_chunks=settings.max_chunks_per_document,
        spool_directory=settings.spool_directory,
    )


@asynccontextmanager
async def open_sandbox(settings: IndexingSettings) -> AsyncIterator[Sandbox]:
    """Open the sandbox that risky formats are read in; its processes start with the first such file."""
    limits = ReaderLimits(
        max_pages=settings.max_pages,
        max_unpacked_bytes=settings.max_unpacked_bytes,
        max_image_pixels=settings.max_image_pixels,
        memory_bytes=settings.reader_memory_bytes,
        seconds=settings.reader_timeout_seconds,
        ocr_data=find_ocr_data(settings.ocr_data),
        ocr_languages=settings.ocr_languages,
    )
    with Sandbox(
        limits, processes=settings.reader_processes, spool_directory=settings.spool_directory
    ) as sandbox:
        yield sandbox
