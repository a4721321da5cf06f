"""Hashes of all that decides a document's chunks."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from groundline.v1 import collection_pb2, passage_pb2
from groundline_extraction.documents import FileContent, GivenDocument, is_text
from groundline_lexical import TEXT_VERSION

from groundline_indexing.collections import (
    effective_chunking,
    effective_mode,
    llm_contextualization,
)

PIPELINE_VERSION: Final = 7
"""Version of the chunks; raised when the same content would give others, so that ingesting it again replaces
them. The lexical text has a version of its own, TEXT_VERSION."""


def content_hash(content: str | bytes | FileContent) -> bytes:
    """Return the SHA-256 of a content as it was handed in."""
    if isinstance(content, FileContent):
        digest = hashlib.sha256()
        for part in content.parts(1 << 20):
            digest.update(part)
        return digest.digest()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).digest()


def input_hash(given: GivenDocument, pictures: collection_pb2.PictureSettings) -> bytes:
    """Return the SHA-256 of what was handed in and decides the text, the content by its hash; and of who
    describes its pictures, if they are described: that is part of the text, which a re-index leaves as it is.

    Metadata and principals are not part of it: they are stored beside the chunks and change in place.
    """
    deciding = [
        given.content_hash.hex(),
        "str" if is_text(given) else "bytes",
        given.uri,
        given.title,
        given.mime_type,
        passage_pb2.SourceType.Name(given.source_type),
    ]
    if pictures.described:
        deciding += ["pictures", pictures.model]
    return hashlib.sha256(json.dumps(deciding).encode()).digest()


def passages_hash(given: bytes, passages: Sequence[str], vectors: bytes) -> bytes:
    """Return the input_hash of a document that comes in passages with vectors, which decide its chunks as
    well; `given` is the hash of its text."""
    deciding = [given.hex(), [len(passage) for passage in passages], hashlib.sha256(vectors).hexdigest()]
    return hashlib.sha256(json.dumps(deciding).encode()).digest()


def ingestion_hash(given: bytes, settings: collection_pb2.CollectionSettings) -> bytes:
    """Return the SHA-256 of all that decides a document's chunks; `given` is the input_hash."""
    chunking = effective_chunking(settings)
    written = llm_contextualization(settings)
    deciding = [
        PIPELINE_VERSION,
        TEXT_VERSION,
        given.hex(),
        [
            chunking.strategy,
            chunking.chunk_size,
            chunking.chunk_overlap,
            chunking.unit,
            chunking.parent_size,
        ],
        effective_mode(settings),
        [written.prompt, written.model] if written else None,
        [settings.embedding.model, settings.lexical.language],
    ]
    return hashlib.sha256(json.dumps(deciding).encode()).digest()
