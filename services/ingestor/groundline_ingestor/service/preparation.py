"""From what was handed in to chunks ready to be embedded; CPU work, without a store."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

from groundline.v1 import collection_pb2, document_pb2
from groundline_lexical import lexical_text
from groundline_signatures import signature
from groundline_validation import limits_of

from groundline_ingestor.domain.collections import StoredCollection
from groundline_ingestor.domain.documents import (
    DocumentVersion,
    FileContent,
    GivenDocument,
    IngestionError,
    Member,
)
from groundline_ingestor.domain.front_matter import front_matter
from groundline_ingestor.domain.hashes import content_hash, ingestion_hash, input_hash
from groundline_ingestor.domain.settings import effective_chunking, effective_mode
from groundline_ingestor.domain.texts import (
    MEMBER_MARK,
    PAGE_BREAK,
    DocumentText,
    ExtractedText,
    Heading,
    PreparedChunk,
    Section,
    TextSegment,
    enclosing,
    has_pages,
    heading_trails,
    last_part,
    open_table_head,
    pages_at,
    structural_context,
    table_heads_at,
)
from groundline_ingestor.members import FoundMember, MemberSpool
from groundline_ingestor.ports import Extractor, Splitter
from groundline_ingestor.segments import kept_segments
from groundline_ingestor.spooling import open_spool_file

__all__ = [
    "DocumentLimits",
    "OnStage",
    "Preparation",
    "Prepared",
    "identify",
    "member_uri",
    "members_of",
    "prepared_chunks",
    "shown_uri",
]

_GENERATED_URI = "sha256:"
_URI = limits_of(document_pb2.DocumentInput, "uri")
MAX_TITLE_CHARACTERS = 500

type OnStage = Callable[[document_pb2.IngestionState.ValueType], None]
"""Told of each stage as it begins, in the thread that works."""


@dataclass(frozen=True)
class DocumentLimits:
    """Bounds on one document."""

    max_document_bytes: int = 512 * 1024**2
    max_chunks: int = 400_000


def identify(given: GivenDocument, collection: StoredCollection) -> tuple[GivenDocument, DocumentVersion]:
    """The input with a uri and what it says of itself, and what is known of the document before its text is
    read."""
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
    hashed = input_hash(given)
    version = DocumentVersion(
        uri=given.uri,
        source_type=given.source_type,
        title=given.title or last_part(given.uri),
        mime_type=given.mime_type,
        content_hash=digest,
        input_hash=hashed,
        ingestion_hash=ingestion_hash(hashed, collection.settings),
        size_bytes=_size(given.content),
        metadata=given.metadata,
        allowed_principals=given.allowed_principals,
        container_uri=given.container_uri,
    )
    return given, version


def members_of(
    container: DocumentVersion, found: Sequence[FoundMember], collection: StoredCollection
) -> Sequence[Member]:
    """The files within a document as documents of its job, which have its metadata and principals."""
    members: list[Member] = []
    for one in found:
        member, version = identify(
            GivenDocument(
                one.content,
                uri=member_uri(container.uri, one.path),
                mime_type=one.mime_type,
                source_type=container.source_type,
                metadata=container.metadata,
                allowed_principals=container.allowed_principals,
                container_uri=member_uri(container.uri, one.container),
            ),
            collection,
        )
        members.append(Member(member, version, one.failure))
    return members


def member_uri(uri: str, path: str) -> str:
    """The uri of a file within a document, by its path there; the document's own where that is empty. One
    that is longer than a uri may be is replaced by a name made from its hash."""
    if not path:
        return uri
    whole = f"{uri}{MEMBER_MARK}{path}"
    if len(whole) <= _URI.max_length and len(whole.encode()) <= _URI.max_bytes:
        return whole
    return f"{_GENERATED_URI}{content_hash(whole).hex()}"


@dataclass(frozen=True)
class Prepared:
    """A document, or a segment of a long one, with its chunks, and the text they were cut from, which begins
    at `start`; within a table, if `table_head` is that one's first row."""

    version: DocumentVersion
    chunks: Sequence[PreparedChunk]
    extraction: ExtractedText
    start: int = 0
    table_head: str = ""


class Preparation:
    """Extracts, cuts and contextualizes."""

    def __init__(
        self,
        extractor: Extractor,
        splitter: Splitter,
        limits: DocumentLimits,
        spool_directory: Path | None = None,
    ) -> None:
        """`spool_directory`: where long texts are put while they are worked on."""
        self._extractor = extractor
        self._splitter = splitter
        self._limits = limits
        self._spool_directory = spool_directory

    @property
    def max_document_bytes(self) -> int:
        return self._limits.max_document_bytes

    def open_spool_file(self) -> BinaryIO:
        """An empty file for a content that is on its way. Close it when done."""
        return open_spool_file(self._spool_directory)

    def open_member_spool(self) -> MemberSpool:
        """A place for the files within a document. Close it when done."""
        return MemberSpool(self._spool_directory)

    def read(
        self,
        given: GivenDocument,
        version: DocumentVersion,
        *,
        client: str = "",
        members: MemberSpool | None = None,
    ) -> tuple[DocumentText, DocumentVersion]:
        """The document's text, and the document with title and type; `client` is whose it is. With `members`
        the files within it are put there. Raises IngestionError."""
        if version.size_bytes > self._limits.max_document_bytes:
            raise IngestionError(
                document_pb2.INGESTION_STATE_EXTRACTING,
                "DOCUMENT_TOO_LARGE",
                f"{version.size_bytes} bytes; at most {self._limits.max_document_bytes} are taken",
            )
        stream = self._extractor.read(given, client=client, members=members)
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
        version = replace(version, title=title, mime_type=stream.mime_type)
        return DocumentText(segments, stream.mime_type, stream.title), version

    def chunk(
        self,
        text: DocumentText,
        version: DocumentVersion,
        collection: StoredCollection,
        on_stage: OnStage = lambda stage: None,
    ) -> Iterator[Prepared]:
        """The chunks of each segment of a text. Raises IngestionError, also between segments.

        Where a segment does not end with its section, its last chunk is cut anew, together with the next
        segment, so that chunks go on and overlap across the border.
        """
        chunk_count = 0
        above: tuple[Heading, ...] = ()
        pages = 0
        carried = TextSegment("")
        table_head = ""
        following = iter(text.segments)
        segment = next(following, None)
        while segment is not None:
            on_stage(document_pb2.INGESTION_STATE_CHUNKING)
            coming = next(following, None)
            start = segment.start - len(carried.text)
            extraction = ExtractedText(
                carried.text + segment.text,
                text.mime_type,
                tuple(
                    replace(heading, start=heading.start - start)
                    for heading in (*carried.headings, *segment.headings)
                ),
            )
            sections = self._splitter.split(
                extraction, effective_chunking(collection.settings), collection.settings.lexical.language
            )
            end = len(extraction.text)
            if coming is not None and sections and _goes_on(coming, extraction, sections[-1]):
                # A parent is cut anew as a whole.
                place = len(sections) - 1 - sections[-1].siblings_before
                if place:
                    end = sections[place].start
                    sections = sections[:place]
            chunk_count += len(sections)
            if chunk_count > self._limits.max_chunks:
                raise IngestionError(
                    document_pb2.INGESTION_STATE_CHUNKING,
                    "TOO_MANY_CHUNKS",
                    f"more than {self._limits.max_chunks} chunks, which are the most that are taken",
                )
            on_stage(document_pb2.INGESTION_STATE_CONTEXTUALIZING)
            if sections:  # a segment may be blank
                yield Prepared(
                    version,
                    prepared_chunks(
                        extraction, sections, version, collection, start, above, pages, table_head
                    ),
                    extraction,
                    start,
                    table_head,
                )
            table_head = open_table_head(extraction.text[:end], table_head)
            carried = TextSegment(
                extraction.text[end:],
                start + end,
                tuple(
                    replace(heading, start=heading.start + start)
                    for heading in extraction.headings
                    if heading.start >= end
                ),
            )
            pages += extraction.text.count(PAGE_BREAK, 0, end)
            if not carried.text and coming is not None and not coming.text.startswith("|"):
                table_head = ""  # the table ended with the segment
            above = enclosing((*above, *(heading for heading in extraction.headings if heading.start < end)))
            segment = coming


def _goes_on(coming: TextSegment, extraction: ExtractedText, last: Section) -> bool:
    """Whether the text that follows belongs to the last chunk as well."""
    begins_section = bool(coming.headings) and coming.headings[0].start == coming.start
    # What begins within a code fence would be taken for text, and what follows the fence for code.
    return not begins_section and not any(fence in last.text for fence in ("```", "~~~"))


def prepared_chunks(
    extraction: ExtractedText,
    sections: Sequence[Section],
    version: DocumentVersion,
    collection: StoredCollection,
    start: int = 0,
    above: Sequence[Heading] = (),
    pages_before: int = 0,
    table_head: str = "",
) -> list[PreparedChunk]:
    """Sections with their contexts and their offsets in the whole text; `above` are headings that enclose the
    beginning of this part of it, `table_head` is the first row of the table that it begins within."""
    uri = shown_uri(version.uri)
    contexts: Iterable[str]
    if effective_mode(collection.settings) == collection_pb2.CONTEXTUALIZATION_MODE_NONE:
        contexts = repeat("", len(sections))
    else:
        outside = [replace(heading, start=-1) for heading in above]
        starts = [section.own_start for section in sections]
        trails = heading_trails((*outside, *extraction.headings), starts)
        heads = table_heads_at(extraction.text, starts, table_head)
        contexts = (
            "\n".join(filter(None, (structural_context(version.title, uri, trail), head)))
            for trail, head in zip(trails, heads, strict=True)
        )
    pages: Iterable[int] = repeat(0, len(sections))
    if pages_before or has_pages(extraction):
        pages = pages_at(extraction.text, (section.own_start for section in sections), pages_before)
    return [
        PreparedChunk(
            replace(section, start=start + section.start, end=start + section.end),
            context,
            lexical_text(section.text, context=context, title=version.title, uri=uri),
            # The chunks of a parent are answered with all of it: of several that are found, one is enough.
            signature(_parent_text(extraction.text, sections, position)),
            page,
        )
        for position, (section, context, page) in enumerate(zip(sections, contexts, pages, strict=True))
    ]


def _parent_text(text: str, sections: Sequence[Section], position: int) -> str:
    """The text of the parent that a section belongs to; of others their own."""
    section = sections[position]
    first = sections[position - section.siblings_before]
    last = sections[position + section.siblings_after]
    return text[first.start : last.end]


def shown_uri(uri: str) -> str:
    """The uri as far as it says anything: a generated one would only put digits into the index."""
    return "" if uri.startswith(_GENERATED_URI) else uri


def _size(content: str | bytes | FileContent) -> int:
    match content:
        case FileContent():
            return content.size
        case str():
            return len(content.encode())
        case _:
            return len(content)
