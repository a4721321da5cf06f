"""From what was handed in to chunks ready to be embedded; CPU work, without a store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from groundline_lexical import lexical_text

from groundline_ingestor.domain import (
    Chunk,
    Chunking,
    Collection,
    ContextualizationMode,
    DocumentInput,
    DocumentVersion,
    Extraction,
    IngestionError,
    IngestionState,
    Section,
    content_hash,
    contextualization_of,
    heading_trails,
    ingestion_hash,
    input_hash,
    last_part,
    structural_context,
)
from groundline_ingestor.ports import Extractor, Splitter

__all__ = ["Limits", "OnStage", "Preparation", "Prepared", "identify", "shown_uri"]

_GENERATED_URI = "sha256:"

type OnStage = Callable[[IngestionState], None]
"""Told of each stage as it begins, in the thread that works."""


@dataclass(frozen=True)
class Limits:
    """Bounds on one document."""

    max_document_bytes: int = 64 * 1024**2
    max_chunks: int = 100_000


def identify(given: DocumentInput, collection: Collection) -> tuple[DocumentInput, DocumentVersion]:
    """The input with a uri, and what is known of the document before its text is read."""
    digest = content_hash(given.content)
    given = replace(given, uri=given.uri or f"{_GENERATED_URI}{digest.hex()}")
    hashed = input_hash(given, digest)
    version = DocumentVersion(
        uri=given.uri,
        source_type=given.source_type,
        title=given.title or last_part(given.uri),
        mime_type=given.mime_type,
        content_hash=digest,
        input_hash=hashed,
        ingestion_hash=ingestion_hash(hashed, collection.settings, collection.partition),
        size_bytes=_size(given),
        metadata=given.metadata,
        allowed_principals=given.allowed_principals,
    )
    return given, version


@dataclass(frozen=True)
class Prepared:
    """A document with its chunks, and the text they were cut from."""

    version: DocumentVersion
    chunks: Sequence[Chunk]
    extraction: Extraction


class Preparation:
    """Extracts, cuts and contextualizes one document at a time."""

    def __init__(self, extractor: Extractor, splitter: Splitter, limits: Limits) -> None:
        self._extractor = extractor
        self._splitter = splitter
        self._limits = limits

    def prepare(
        self,
        given: DocumentInput,
        version: DocumentVersion,
        collection: Collection,
        on_stage: OnStage = lambda stage: None,
    ) -> Prepared:
        """The document with title and type, and its chunks. Raises IngestionError."""
        if version.size_bytes > self._limits.max_document_bytes:
            raise IngestionError(
                IngestionState.EXTRACTING,
                "DOCUMENT_TOO_LARGE",
                f"{version.size_bytes} bytes; at most {self._limits.max_document_bytes} are taken",
            )
        extraction = self._extractor.extract(given)
        first_heading = extraction.headings[0].title if extraction.headings else ""
        version = replace(
            version,
            title=given.title or extraction.title or first_heading or version.title,
            mime_type=extraction.mime_type,
        )
        return self.chunk(extraction, version, collection, on_stage)

    def chunk(
        self,
        extraction: Extraction,
        version: DocumentVersion,
        collection: Collection,
        on_stage: OnStage = lambda stage: None,
    ) -> Prepared:
        """The chunks of a text that was extracted before. Raises IngestionError."""
        on_stage(IngestionState.CHUNKING)
        sections = self._splitter.split(
            extraction, Chunking.of(collection.settings), collection.partition.language
        )
        if len(sections) > self._limits.max_chunks:
            raise IngestionError(
                IngestionState.CHUNKING,
                "TOO_MANY_CHUNKS",
                f"{len(sections)} chunks; at most {self._limits.max_chunks} are taken",
            )
        on_stage(IngestionState.CONTEXTUALIZING)
        contexts = _contexts(extraction, sections, version, contextualization_of(collection.settings))
        chunks = [
            Chunk(
                section,
                context,
                lexical_text(section.text, context=context, title=version.title, uri=shown_uri(version.uri)),
            )
            for section, context in zip(sections, contexts, strict=True)
        ]
        return Prepared(version, chunks, extraction)


def _contexts(
    extraction: Extraction, sections: Sequence[Section], version: DocumentVersion, mode: ContextualizationMode
) -> list[str]:
    if mode is ContextualizationMode.NONE:
        return [""] * len(sections)
    trails = heading_trails(extraction.headings, (section.start for section in sections))
    return [structural_context(version.title, shown_uri(version.uri), trail) for trail in trails]


def shown_uri(uri: str) -> str:
    """The uri as far as it says anything: a generated one would only put digits into the index."""
    return "" if uri.startswith(_GENERATED_URI) else uri


def _size(given: DocumentInput) -> int:
    return len(given.content if isinstance(given.content, bytes) else given.content.encode())
