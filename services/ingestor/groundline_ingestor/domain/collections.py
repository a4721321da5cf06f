"""Collections, their partitions, and who may use them."""

import enum
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from groundline_ingestor.domain.documents import IngestionState
from groundline_ingestor.domain.settings import SettingChange

__all__ = [
    "Collection",
    "CollectionChange",
    "CollectionStats",
    "NewCollection",
    "Partition",
    "VectorIndexState",
    "collection_id_from",
    "is_readable",
    "is_writable",
]

MAX_COLLECTION_ID_LENGTH: Final = 63


class VectorIndexState(enum.StrEnum):
    """Without the index a search reads every vector, which finds the same or more, slower."""

    NONE = "none"
    """Too few chunks for one."""
    PENDING = "pending"
    """Being built, or will be when what is being ingested is done."""
    READY = "ready"


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
