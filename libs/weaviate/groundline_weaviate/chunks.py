"""What Weaviate holds of a chunk, and how it is named there."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from groundline_embedding.ports import Vectors

__all__ = [
    "EVERYONE",
    "Entry",
    "IndexedChunk",
    "Space",
    "existing",
    "holding",
    "key_of",
    "listing",
    "microseconds",
    "object_id",
    "principal",
]

# A UUID of version 8, whose bits are free: 48 of the partition, 62 of the chunk. So an answer need carry
# nothing but ids, and a listing is in the order of partitions and chunks.
_OBJECT_IDS = 8 << 76 | 2 << 62
_PARTITION_SHIFT = 80

MAX_PARTITION_ID, MAX_CHUNK_ID = 2**48 - 1, 2**62 - 1

EVERYONE = "*"
"""Stands with chunks that whoever reads the collection may read; a principal is a token of another length."""

_TOKEN_BYTES = 12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Space:
    """Vectors of one model and length, which can be compared; they have a class of their own."""

    model: str
    dimensions: int

    def class_name(self, prefix: str) -> str:
        """The name of its class: readable, and another one for another model."""
        readable = re.sub(r"[^A-Za-z0-9]+", "_", self.model.rpartition("/")[2])[:60].strip("_")
        digest = hashlib.blake2b(self.model.encode(), digest_size=5).hexdigest()
        return f"{prefix}_{readable}_{digest}_{self.dimensions}"


class Entry(NamedTuple):
    """What verifying needs to know of an object."""

    chunk_id: int
    content_hash: str


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A row of `chunks` with all that searches look at: no text, and of metadata and principals digests."""

    partition_id: int
    """Searches name it: what a re-index builds is found from the moment that the collection moves there."""
    chunk_id: int
    """A chunk that is moved to another partition keeps it, and has an object in both meanwhile."""
    collection_id: str
    document_id: UUID
    words: str
    """Of `stored_words`."""
    vector: Vectors
    principals: Sequence[str]
    """Who may read the document; empty: whoever may read the collection."""
    source_type: str
    update_time: datetime
    metadata: Mapping[str, object]

    @property
    def readers(self) -> Sequence[str]:
        return sorted({principal(each) for each in self.principals}) or [EVERYONE]

    @property
    def metadata_tokens(self) -> Sequence[str]:
        return sorted(set(_tokens(self.metadata, ())))

    @property
    def vector_bytes(self) -> bytes:
        return self.vector.astype("<f4").tobytes()

    @property
    def content_hash(self) -> str:
        """Of all that is stored: two objects with one hash answer every search alike."""
        digest = hashlib.blake2b(digest_size=16)
        parts = [
            self.partition_id,
            self.collection_id,
            str(self.document_id),
            self.words,
            self.readers,
            self.source_type,
            microseconds(self.update_time),
            self.metadata_tokens,
        ]
        digest.update(json.dumps(parts).encode())
        digest.update(self.vector_bytes)
        return digest.hexdigest()


def object_id(partition_id: int, chunk_id: int) -> UUID:
    """The id of an object. Raises ValueError for ids that no row has."""
    if not (0 <= partition_id <= MAX_PARTITION_ID and 0 <= chunk_id <= MAX_CHUNK_ID):
        raise ValueError(f"no object can have the key ({partition_id}, {chunk_id})")
    return UUID(int=partition_id << _PARTITION_SHIFT | _OBJECT_IDS | chunk_id)


def key_of(identifier: bytes) -> tuple[int, int]:
    """Partition and chunk of an object's id, given as its 16 bytes."""
    return int.from_bytes(identifier[:6]), int.from_bytes(identifier[8:]) & MAX_CHUNK_ID


def microseconds(time: datetime) -> int:
    """Since 1970, as the index compares times; exactly."""
    passed = time - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def principal(name: str) -> str:
    """The token of a principal."""
    return _token("principal", name)


def holding(path: Sequence[str], value: object) -> str:
    """The token of metadata with this scalar at a path."""
    return _token("value", [*path], _plain(value))


def listing(path: Sequence[str], value: object) -> str:
    """The token of metadata with a list at a path that has this scalar."""
    return _token("element", [*path], _plain(value))


def existing(path: Sequence[str]) -> str:
    """The token of metadata with anything at a path, null included."""
    return _token("exists", [*path])


def _tokens(value: object, path: tuple[str, ...]) -> Iterator[str]:
    if path:
        yield existing(path)
    match value:
        case Mapping():
            for name, inner in value.items():
                yield from _tokens(inner, (*path, name))
        case list():
            yield from (listing(path, each) for each in value if not isinstance(each, list | Mapping))
        case _:
            yield holding(path, value)


def _plain(value: object) -> object:
    """JSON has one kind of number: 1 and 1.0 are the same."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _token(*parts: object) -> str:
    # Of one length, whatever a value's, and without characters that an index treats in a way of its own.
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=_TOKEN_BYTES).hexdigest()
