"""From a record of an import to a document ready to be stored, as the pipeline makes it."""

from contextlib import closing
from dataclasses import replace

from groundline_ingestor.domain.collections import StoredCollection
from groundline_ingestor.domain.documents import DocumentVersion, GivenDocument
from groundline_ingestor.domain.hashes import ingestion_hash, passages_hash
from groundline_ingestor.domain.imports import GivenRecord
from groundline_ingestor.domain.texts import ExtractedText, PreparedChunk, Section, TextSegment
from groundline_ingestor.domain.work import NewVersion
from groundline_ingestor.segments import HeadedCutter
from groundline_ingestor.service.embedding import RememberingEmbedder
from groundline_ingestor.service.preparation import Preparation, identify, prepared_chunks

__all__ = ["PASSAGE_BREAK", "RecordPreparation", "identified", "with_vectors"]

PASSAGE_BREAK = "\n\n"
"""Between the passages of a document, in its text."""


def identified(record: GivenRecord, collection: StoredCollection) -> tuple[GivenDocument, DocumentVersion]:
    """The record's document with its hashes, by which one that is unchanged is known."""
    given, version = identify(record.given, collection)
    if record.vectors is None:
        return given, version
    hashed = passages_hash(version.input_hash, record.passages, record.vectors.tobytes())
    return given, replace(
        version, input_hash=hashed, ingestion_hash=ingestion_hash(hashed, collection.settings)
    )


class RecordPreparation:
    """Cuts and embeds the texts of records that come without vectors."""

    def __init__(self, preparation: Preparation, embedder: RememberingEmbedder) -> None:
        self._preparation = preparation
        self._embedder = embedder

    async def prepare(
        self, given: GivenDocument, version: DocumentVersion, collection: StoredCollection
    ) -> NewVersion:
        """Of what `identified` made of the record. Raises IngestionError."""
        text, version = self._preparation.read(given, version)
        with closing(text.segments):
            parts = self._preparation.chunk(text, version, collection)
            chunks = [chunk for prepared in parts for chunk in prepared.chunks]
            segments = list(text.segments)
        texts = [chunk.embedded_text for chunk in chunks]
        vectors, _ = await self._embedder.embed(texts)
        tokens = sum(self._embedder.embedder.count_tokens(texts))
        return NewVersion(version, chunks, vectors, segments, tokens)


def with_vectors(
    record: GivenRecord, given: GivenDocument, version: DocumentVersion, collection: StoredCollection
) -> NewVersion:
    """Of a record whose passages have vectors, and of what `identified` made of it."""
    assert isinstance(given.content, str), "passages are text"
    assert record.vectors is not None, "each passage has a vector"
    version = replace(version, mime_type=version.mime_type or "text/plain")
    sections, start = [], 0
    for passage in record.passages:
        sections.append(Section(passage, start, start + len(passage)))
        start += len(passage) + len(PASSAGE_BREAK)
    extraction = ExtractedText(given.content, version.mime_type)
    chunks: list[PreparedChunk] = prepared_chunks(extraction, sections, version, collection)
    cutter = HeadedCutter(is_markdown=False, read_headings=lambda text, start: ())
    segments: list[TextSegment] = [*cutter.feed(given.content), *cutter.end()]
    # No tokens: nothing was embedded here.
    return NewVersion(version, chunks, record.vectors, segments)
