"""Chunks as Weaviate holds them, and their names there."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple
from uuid import UUID

from groundline_embedding.ports import Vectors
from groundline_lexical import stored_words

# A UUID of version 8, whose bits are free: 48 of the partition, 62 of the chunk. So an answer need carry
# nothing but ids, and a listing is in the order of partitions and chunks.
_OBJECT_IDS: Final = 8 << 76 | 2 << 62
_PARTITION_SHIFT: Final = 80

MAX_PARTITION_ID: Final = 2**48 - 1
MAX_CHUNK_ID: Final = 2**62 - 1

EVERYONE: Final = "*"
"""Token of chunks that every reader of the collection may read; a principal's token has another length."""

_TOKEN_BYTES: Final = 12
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Space:
    """Vectors of one model and length, which can be compared; each space has a class of its own, and one for
    quantized vectors."""

    model: str
    dimensions: int
    is_quantized: bool = False

    def class_name(self, prefix: str) -> str:
        """Return the name of its class: readable, and unique to the model."""
        readable = re.sub(r"[^A-Za-z0-9]+", "_", self.model.rpartition("/")[2])[:60].strip("_")
        digest = hashlib.blake2b(self.model.encode(), digest_size=5).hexdigest()
        name = f"{prefix}_{readable}_{digest}_{self.dimensions}"
        return f"{name}_quantized" if self.is_quantized else name


class Entry(NamedTuple):
    """Part of an object that verification needs."""

    chunk_id: int
    content_hash: str


@dataclass(frozen=True)  # without slots, for cached_property
class IndexedChunk:
    """A row of `chunks` with all that searches look at."""

    partition_id: int
    """Partition, which searches name: a re-indexed collection is found in its new one as soon as it moves
    there."""
    chunk_id: int
    """Chunk, which keeps its id when it moves to another partition, and has an object in both meanwhile."""
    collection_id: str
    document_id: UUID
    lexical_text: str
    language: str
    vector: Vectors
    principals: Sequence[str]
    """Principals that may read the document; empty: every reader of the collection."""
    source_type: str
    update_time: datetime
    metadata: Mapping[str, object]

    @cached_property
    def words(self) -> str:
        """The words of the text as the index holds them."""
        return stored_words(self.lexical_text, self.language)

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
        """Hash of everything stored: two objects with one hash answer every search alike."""
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
    """Return the id of an object. Raises ValueError for ids that no row has."""
    if not (0 <= partition_id <= MAX_PARTITION_ID and 0 <= chunk_id <= MAX_CHUNK_ID):
        raise ValueError(f"no object can have the key ({partition_id}, {chunk_id})")
    return UUID(int=partition_id << _PARTITION_SHIFT | _OBJECT_IDS | chunk_id)


def key_of(identifier: bytes) -> tuple[int, int]:
    """Return partition and chunk of an object's id, given as its 16 bytes."""
    return int.from_bytes(identifier[:6]), int.from_bytes(identifier[8:]) & MAX_CHUNK_ID


def microseconds(time: datetime) -> int:
    """Return the microseconds since 1970, exactly, as the index compares times."""
    passed = time - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def principal(name: str) -> str:
    """Return the token of a principal."""
    return _token("principal", name)


def holding(path: Sequence[str], value: object) -> str:
    """Return the token of metadata with this scalar at a path."""
    return _token("value", [*path], _plain(value))


def listing(path: Sequence[str], value: object) -> str:
    """Return the token of metadata with a list at a path that has this scalar."""
    return _token("element", [*path], _plain(value))


def existing(path: Sequence[str]) -> str:
    """Return the token of metadata with any value at a path, null included."""
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
    """Return the value with JSON's one kind of number: 1 and 1.0 are the same."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _token(*parts: object) -> str:
    # Of one length, whatever a value's, and without characters that an index treats in a way of its own.
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=_TOKEN_BYTES).hexdigest()
