"""What the ingestor knows of collections, documents and jobs; values and pure functions.

Enumerations have the contract's names as values, so that they read the same in SQL, JSON and on the wire.
"""

import enum
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Final, Protocol

import numpy as np
from groundline_lexical import TEXT_VERSION
from groundline_runtime.errors import FieldViolation
from numpy.typing import NDArray

__all__ = [
    "PIPELINE_VERSION",
    "Chunk",
    "ChunkCounts",
    "Chunking",
    "ChunkingStrategy",
    "Claim",
    "Collection",
    "CollectionChange",
    "CollectionStats",
    "ContextualizationMode",
    "Document",
    "DocumentInput",
    "DocumentText",
    "DocumentVersion",
    "Extraction",
    "FileContent",
    "Heading",
    "IngestionError",
    "IngestionFailure",
    "IngestionOutcome",
    "IngestionState",
    "Item",
    "Job",
    "JobKind",
    "JobState",
    "LeasedItem",
    "NewCollection",
    "NewVersion",
    "Partition",
    "Progress",
    "Section",
    "Series",
    "SettingChange",
    "SizeUnit",
    "SourceType",
    "StoredText",
    "Stretch",
    "VectorIndexState",
    "Vectors",
    "collection_id_from",
    "content_hash",
    "contextualization_of",
    "contextualized",
    "enclosing",
    "heading_trails",
    "ingestion_hash",
    "input_hash",
    "is_document_readable",
    "is_readable",
    "is_text",
    "is_writable",
    "last_part",
    "llm_contextualization_of",
    "settings_violations",
    "structural_context",
    "with_changes",
]

PIPELINE_VERSION: Final = 2
"""Raised when the same content would give other chunks, so that ingesting it again replaces them; what the
lexical package makes of a chunk has a version of its own, TEXT_VERSION."""

MAX_COLLECTION_ID_LENGTH: Final = 63


class ChunkingStrategy(enum.StrEnum):
    RECURSIVE = "CHUNKING_STRATEGY_RECURSIVE"
    SECTIONS = "CHUNKING_STRATEGY_SECTIONS"
    WORDS = "CHUNKING_STRATEGY_WORDS"
    SENTENCES = "CHUNKING_STRATEGY_SENTENCES"


class SizeUnit(enum.StrEnum):
    CHARACTERS = "CHUNK_SIZE_UNIT_CHARACTERS"
    TOKENS = "CHUNK_SIZE_UNIT_TOKENS"


class ContextualizationMode(enum.StrEnum):
    NONE = "CONTEXTUALIZATION_MODE_NONE"
    STRUCTURAL = "CONTEXTUALIZATION_MODE_STRUCTURAL"
    LLM = "CONTEXTUALIZATION_MODE_LLM"


class SourceType(enum.StrEnum):
    FILE = "file"
    OBJECT = "object"
    WEB = "web"


class VectorIndexState(enum.StrEnum):
    """Without the index a search reads every vector, which finds the same or more, slower."""

    NONE = "none"
    """Too few chunks for one."""
    PENDING = "pending"
    """Being built, or will be when what is being ingested is done."""
    READY = "ready"


class IngestionState(enum.StrEnum):
    QUEUED = "queued"
    EXTRACTING = "extracting"
    CHUNKING = "chunking"
    CONTEXTUALIZING = "contextualizing"
    EMBEDDING = "embedding"
    STORING = "storing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class IngestionOutcome(enum.StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class JobState(enum.StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


# --- collections ---


@dataclass(frozen=True)
class Chunking:
    """How documents are cut; the defaults are the contract's."""

    strategy: ChunkingStrategy = ChunkingStrategy.RECURSIVE
    chunk_size: int = 2000
    chunk_overlap: int = 200
    unit: SizeUnit = SizeUnit.CHARACTERS

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Chunking":
        """The effective chunking of a collection's settings."""
        chosen = settings.get("chunking", {})
        size = chosen.get("chunkSize", cls.chunk_size)
        # A small chunk_size that is set alone must not clash with the default overlap.
        overlap = cls.chunk_overlap if cls.chunk_overlap * 2 < size else size // 10
        return cls(
            strategy=ChunkingStrategy(chosen.get("strategy", cls.strategy)),
            chunk_size=size,
            chunk_overlap=chosen.get("chunkOverlap", overlap),
            unit=SizeUnit(chosen.get("unit", cls.unit)),
        )


def contextualization_of(settings: Mapping[str, Any]) -> ContextualizationMode:
    """The effective contextualization mode of a collection's settings."""
    mode = settings.get("contextualization", {}).get("mode", ContextualizationMode.STRUCTURAL)
    return ContextualizationMode(mode)


def llm_contextualization_of(settings: Mapping[str, Any]) -> tuple[str, str] | None:
    """Prompt and model, empty for the generator's own, where a language model writes the contexts."""
    if contextualization_of(settings) is not ContextualizationMode.LLM:
        return None
    chosen = settings["contextualization"]
    return chosen.get("prompt", ""), chosen.get("model", "")


def settings_violations(settings: Mapping[str, Any]) -> Sequence[FieldViolation]:
    """What is wrong between settings that are right one by one."""
    chunking = Chunking.of(settings)
    if chunking.chunk_overlap * 2 >= chunking.chunk_size:
        return [
            FieldViolation(
                "settings.chunking.chunk_overlap",
                f"must be less than half of chunk_size, which is {chunking.chunk_size}",
            )
        ]
    return []


@dataclass(frozen=True)
class SettingChange:
    """One change of a collection's settings: a path of JSON names, and the new value, None to unset it."""

    path: tuple[str, ...]
    value: Any


def with_changes(settings: Mapping[str, Any], changes: Sequence[SettingChange]) -> dict[str, Any]:
    """The settings after the changes; what is left empty is dropped."""
    changed: dict[str, Any] = json.loads(json.dumps(settings))
    for change in changes:
        *parents, last = change.path
        target = changed
        for name in parents:
            target = target.setdefault(name, {})
        if change.value is None:
            target.pop(last, None)
        else:
            target[last] = change.value
    return {name: value for name, value in changed.items() if value != {}}


@dataclass(frozen=True)
class Partition:
    """The table of a collection's chunks, with what its vectors and terms were made by."""

    partition_id: int
    embedding_model: str
    dimensions: int
    language: str


@dataclass(frozen=True)
class NewCollection:
    """A collection to create. `embedding_model` and `name` are empty where the creator left them open."""

    collection_id: str
    name: str
    settings: Mapping[str, Any]
    embedding_model: str
    language: str
    readers: tuple[str, ...]
    writers: tuple[str, ...]
    request_id: str


@dataclass(frozen=True)
class Collection:
    """A stored collection. `settings` is CollectionSettings in proto3 JSON, only what was set, without
    embedding, lexical and access, which are fields of their own."""

    collection_id: str
    name: str
    settings: Mapping[str, Any]
    readers: tuple[str, ...]
    writers: tuple[str, ...]
    partition: Partition
    create_time: datetime
    update_time: datetime
    document_count: int = 0
    chunk_count: int = 0


@dataclass(frozen=True)
class CollectionChange:
    """What an update does to a collection; None leaves a field as it is."""

    name: str | None = None
    settings: tuple[SettingChange, ...] = ()
    readers: tuple[str, ...] | None = None
    writers: tuple[str, ...] | None = None
    embedding_model: str | None = None
    language: str | None = None


def is_readable(collection: Collection, principals: Sequence[str]) -> bool:
    """Whether a caller may search and read. Writers may; an empty list of readers is no restriction."""
    return not collection.readers or not {*collection.readers, *collection.writers}.isdisjoint(principals)


def is_writable(collection: Collection, principals: Sequence[str]) -> bool:
    """Whether a caller may ingest, change and delete. An empty list of writers means every reader."""
    if not collection.writers:
        return is_readable(collection, principals)
    return not set(collection.writers).isdisjoint(principals)


def collection_id_from(name: str) -> str:
    """An id made from a name for people; empty when no letter or digit of it is left."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", ascii_name).strip("-_")[:MAX_COLLECTION_ID_LENGTH].rstrip("-_")


# --- documents ---


@dataclass(frozen=True)
class FileContent:
    """A content that is too large to be held in memory; text, where it is, in UTF-8. Whoever opened the file
    closes it."""

    file: BinaryIO
    size: int
    is_text: bool = False

    def parts(self, size: int) -> Iterator[bytes]:
        """All of it, so many bytes at a time."""
        self.file.seek(0)
        while part := self.file.read(size):
            yield part


@dataclass(frozen=True)
class DocumentInput:
    """A document as handed in. `uri`, `title` and `mime_type` are empty where they were left open.

    An object's content is its properties in JSON.
    """

    content: str | bytes | FileContent
    uri: str = ""
    title: str = ""
    mime_type: str = ""
    source_type: SourceType = SourceType.FILE
    metadata: Mapping[str, Any] = field(default_factory=dict)
    allowed_principals: tuple[str, ...] = ()


@dataclass(frozen=True)
class IngestionFailure:
    """Why a document failed: the stage it was in, an UPPER_SNAKE reason, and the same for people."""

    stage: IngestionState
    reason: str
    message: str


class IngestionError(Exception):
    """One document cannot be ingested; the others can."""

    def __init__(self, stage: IngestionState, reason: str, message: str) -> None:
        super().__init__(message)
        self.failure = IngestionFailure(stage, reason, message)


@dataclass(frozen=True)
class Document:
    """A stored document."""

    document_id: str
    collection_id: str
    uri: str
    source_type: SourceType
    title: str
    mime_type: str
    content_hash: bytes
    ingestion_hash: bytes
    size_bytes: int
    metadata: Mapping[str, Any]
    allowed_principals: tuple[str, ...]
    state: IngestionState
    chunk_count: int
    failure: IngestionFailure | None
    create_time: datetime
    update_time: datetime


def is_document_readable(document: Document, principals: Sequence[str]) -> bool:
    """Whether a caller that may read the collection may read this document of it."""
    return not document.allowed_principals or not set(document.allowed_principals).isdisjoint(principals)


@dataclass(frozen=True)
class DocumentVersion:
    """A document as its ingestion leaves it, before it has an id."""

    uri: str
    source_type: SourceType
    title: str
    mime_type: str
    content_hash: bytes
    input_hash: bytes
    ingestion_hash: bytes
    size_bytes: int
    metadata: Mapping[str, Any]
    allowed_principals: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A cut of an extracted text: `extracted[start:end] == text`, in code points."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Heading:
    """A heading of an extracted text: its level from 1, its plain title, and where it begins, in code
    points."""

    level: int
    title: str
    start: int


@dataclass(frozen=True)
class Stretch:
    """A piece of a document's text; its start, and the starts of its headings, count in the whole text."""

    text: str
    start: int = 0
    headings: tuple[Heading, ...] = ()


class Series[T](Protocol):
    """Values that can be gone through again and again; not necessarily in memory."""

    def __iter__(self) -> Iterator[T]: ...

    def __len__(self) -> int: ...


class KeptSeries[T](Series[T], Protocol):
    """A Series that may take up disk until it is closed."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class DocumentText:
    """All of a document's text, in stretches; what the document is, and what it calls itself."""

    stretches: KeptSeries[Stretch]
    mime_type: str
    title: str = ""


@dataclass(frozen=True)
class Extraction:
    """A text, which offsets count in; what the document is; its headings in order.

    `title` is what the document calls itself, empty where it does not say.
    """

    text: str
    mime_type: str
    headings: tuple[Heading, ...] = ()
    title: str = ""


@dataclass(frozen=True)
class Chunk:
    """A section with its context, and what BM25 indexes of both."""

    section: Section
    context: str
    lexical_text: str

    @property
    def embedded_text(self) -> str:
        return contextualized(self.section.text, self.context)


type Vectors = NDArray[np.float32] | NDArray[np.float16]


def contextualized(text: str, context: str) -> str:
    """What is embedded of a chunk."""
    return f"{context}\n\n{text}" if context else text


def last_part(uri: str) -> str:
    """The last part of a path or URL, without a trailing slash, query and fragment where it has any."""
    path = re.split(r"[?#]", uri, maxsplit=1)[0] if "://" in uri else uri
    return path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or uri


def heading_trails(headings: Sequence[Heading], positions: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """For each position the titles of the headings that enclose it, outermost first.

    A heading that begins at a position belongs to the text there and is not part of its own trail, but ends
    the sections before it that it does not sit in. Headings and positions are in the order of the text.
    """
    trail: list[Heading] = []
    following = iter(headings)
    heading = next(following, None)
    for position in positions:
        while heading is not None and heading.start <= position:
            while trail and trail[-1].level >= heading.level:
                trail.pop()
            trail.append(heading)
            heading = next(following, None)
        yield tuple(above.title for above in trail if above.start < position)


def enclosing(headings: Iterable[Heading]) -> tuple[Heading, ...]:
    """Of headings in the order of the text, those whose sections go on behind the last."""
    trail: list[Heading] = []
    for heading in headings:
        while trail and trail[-1].level >= heading.level:
            trail.pop()
        trail.append(heading)
    return tuple(trail)


def structural_context(title: str, uri: str, trail: Sequence[str]) -> str:
    """Title, uri and trail of headings, a line each, without saying anything twice.

    `uri` is empty for a document that was handed in without one.
    """
    names_itself = title == last_part(uri) or trail[:1] == (title,)
    return "\n".join(part for part in ("" if names_itself else title, uri, " > ".join(trail)) if part)


def content_hash(content: str | bytes | FileContent) -> bytes:
    """SHA-256 of what was handed in."""
    if isinstance(content, FileContent):
        digest = hashlib.sha256()
        for part in content.parts(1 << 20):
            digest.update(part)
        return digest.digest()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).digest()


def is_text(given: DocumentInput) -> bool:
    """Whether it was handed in as text, to be taken as it is."""
    if isinstance(given.content, FileContent):
        return given.content.is_text
    return isinstance(given.content, str)


def input_hash(given: DocumentInput, content: bytes) -> bytes:
    """SHA-256 of all of what was handed in that decides the chunks; `content` is the content's hash.

    Metadata and principals are not part of it: they are stored beside the chunks and change in place.
    """
    deciding = [
        content.hex(),
        "str" if is_text(given) else "bytes",
        given.uri,
        given.title,
        given.mime_type,
        given.source_type,
    ]
    return hashlib.sha256(json.dumps(deciding).encode()).digest()


def ingestion_hash(given: bytes, settings: Mapping[str, Any], partition: Partition) -> bytes:
    """SHA-256 of all that decides a document's chunks; `given` is the input_hash."""
    chunking = Chunking.of(settings)
    deciding = [
        PIPELINE_VERSION,
        TEXT_VERSION,
        given.hex(),
        [chunking.strategy, chunking.chunk_size, chunking.chunk_overlap, chunking.unit],
        contextualization_of(settings),
        llm_contextualization_of(settings),
        [partition.partition_id, partition.embedding_model, partition.language],
    ]
    return hashlib.sha256(json.dumps(deciding).encode()).digest()


@dataclass(frozen=True)
class StoredText:
    """A document's text as it is kept, for making chunks again."""

    version: DocumentVersion
    version_number: int
    text: DocumentText


# --- jobs ---


@dataclass(frozen=True)
class ChunkCounts:
    """Chunks that passed each stage."""

    parsed: int = 0
    contextualized: int = 0
    embedded: int = 0
    stored: int = 0

    def __add__(self, other: "ChunkCounts") -> "ChunkCounts":
        return ChunkCounts(
            self.parsed + other.parsed,
            self.contextualized + other.contextualized,
            self.embedded + other.embedded,
            self.stored + other.stored,
        )


@dataclass(frozen=True)
class Usage:
    """Tokens that contextualization read (of them from a cache) and wrote."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )


class JobKind(enum.StrEnum):
    INGEST = "ingest"
    REINDEX = "reindex"


@dataclass(frozen=True)
class Item:
    """One document of a job. `document_id` is None until it is known."""

    index: int
    uri: str
    document_id: str | None
    state: IngestionState
    outcome: IngestionOutcome | None = None
    failure: IngestionFailure | None = None
    attempts: int = 1
    chunks: ChunkCounts = ChunkCounts()
    usage: Usage = Usage()
    is_crawl: bool = False

    @property
    def has_ended(self) -> bool:
        return self.state in (IngestionState.DONE, IngestionState.FAILED, IngestionState.CANCELLED)


@dataclass(frozen=True)
class Job:
    """Documents on their way into a collection."""

    job_id: str
    collection_id: str
    state: JobState
    create_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    item_count: int = 0
    done_count: int = 0
    unchanged_count: int = 0
    failed_count: int = 0
    cancelled_count: int = 0
    chunks: ChunkCounts = ChunkCounts()
    usage: Usage = Usage()

    @property
    def has_ended(self) -> bool:
        return self.state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True)
class Claim:
    """A worker's right to an item; void once the lease has gone to another or the item was cancelled."""

    job_id: str
    item_index: int
    lease_id: str


@dataclass(frozen=True)
class LeasedItem:
    """An item to work on. `input` lacks its content, which is read by itself; None for an item of a
    re-index, whose `partition` is where it goes and whose `settings` are those it is built by."""

    claim: Claim
    kind: JobKind
    collection_id: str
    uri: str
    document_id: str | None
    attempts: int
    """This one included; those before the last retry by a person not counted."""
    input: Mapping[str, Any] | None
    partition: Partition | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Progress:
    """How far an item has come, for those who watch."""

    claim: Claim
    state: IngestionState
    chunks: ChunkCounts


@dataclass(frozen=True)
class NewVersion:
    """A document ready to be stored, by the right of a claim; each chunk has a vector."""

    version: DocumentVersion
    chunks: Series[Chunk]
    vectors: Series[Vectors]
    stretches: Series[Stretch]
    token_count: int = 0
    claim: Claim | None = None


@dataclass(frozen=True)
class CollectionStats:
    """What a collection holds; bytes and tokens of searchable documents."""

    states: Mapping[IngestionState, int]
    chunk_count: int
    vector_count: int
    orphan_count: int
    document_bytes: int
    text_bytes: int
    storage_bytes: int
    token_count: int
    vector_index: VectorIndexState
