"""Preparation of an import's records as documents ready to be stored, as the pipeline makes them."""

from contextlib import closing
from dataclasses import replace

import numpy as np
from groundline_embedding import Embedder
from groundline_extraction.segments import HeadedCutter
from groundline_extraction.texts import ExtractedText, TextSegment

from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import HandedIn, ReadyDocument
from groundline_indexing.hashes import ingestion_hash, passages_hash
from groundline_indexing.imports.records import PASSAGE_BREAK, GivenRecord
from groundline_indexing.preparation import PartStart, Preparation, identify, prepared_chunks
from groundline_indexing.texts import PreparedChunk, Section


def identified(record: GivenRecord, collection: StoredCollection) -> HandedIn:
    """Return the record's document with its hashes, by which one that is unchanged is known."""
    handed_in = identify(record.given, collection)
    if record.vectors is None:
        return handed_in
    hashed = passages_hash(handed_in.version.input_hash, record.passages, record.vectors.tobytes())
    version = replace(
        handed_in.version, input_hash=hashed, ingestion_hash=ingestion_hash(hashed, collection.settings)
    )
    return replace(handed_in, version=version)


class RecordPreparation:
    """Preparation that chunks and embeds the texts of records without vectors."""

    def __init__(self, preparation: Preparation, embedder: Embedder) -> None:
        self._preparation = preparation
        self._embedder = embedder

    async def prepare(self, handed_in: HandedIn, collection: StoredCollection) -> ReadyDocument:
        """Cut and embed what `identified` returned of a record. Raises IngestionError."""
        kept, version = self._preparation.read(handed_in.given, handed_in.version)
        with closing(kept):
            parts = self._preparation.chunk(kept, version, collection)
            chunks = [chunk for prepared in parts for chunk in prepared.chunks]
            segments = list(kept)
        texts = [chunk.embedded_text for chunk in chunks]
        vectors = (await self._embedder.embed_windows(self._embedder.windows(texts))).astype(np.float16)
        tokens = sum(self._embedder.count_tokens(texts))
        return ReadyDocument(version, chunks, vectors, segments, tokens)


def with_vectors(record: GivenRecord, handed_in: HandedIn, collection: StoredCollection) -> ReadyDocument:
    """Return the document of a record whose passages have vectors, from what `identified` returned."""
    text, version = handed_in.given.content, handed_in.version
    assert isinstance(text, str), "passages are text"
    assert record.vectors is not None, "each passage has a vector"
    version = replace(version, mime_type=version.mime_type or "text/plain")
    sections, start = [], 0
    for passage in record.passages:
        sections.append(Section(passage, start, start + len(passage)))
        start += len(passage) + len(PASSAGE_BREAK)
    extraction = ExtractedText(text, version.mime_type)
    chunks: list[PreparedChunk] = prepared_chunks(extraction, sections, version, collection, PartStart())
    cutter = HeadedCutter(is_markdown=False, read_headings=lambda text, start: ())
    segments: list[TextSegment] = [*cutter.feed(text), *cutter.end()]
    # No tokens: nothing was embedded here.
    return ReadyDocument(version, chunks, record.vectors, segments)
