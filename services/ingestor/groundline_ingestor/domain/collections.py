"""Collections: their ids, who may use them, and the partitions that their chunks are in."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from groundline.v1 import collection_pb2

__all__ = ["StoredCollection", "collection_id_from", "is_readable", "is_writable"]

MAX_COLLECTION_ID_LENGTH: Final = 63


@dataclass(frozen=True)
class StoredCollection:
    """A collection and the partition that its chunks are in. Of the settings embedding, lexical and access
    are complete, the others only what was set."""

    message: collection_pb2.Collection
    partition_id: int

    @property
    def collection_id(self) -> str:
        return self.message.collection_id

    @property
    def settings(self) -> collection_pb2.CollectionSettings:
        return self.message.settings


def is_readable(collection: collection_pb2.Collection, principals: Sequence[str]) -> bool:
    """Whether a caller may search and read. Writers may; an empty list of readers is no restriction."""
    access = collection.settings.access
    return not access.readers or not {*access.readers, *access.writers}.isdisjoint(principals)


def is_writable(collection: collection_pb2.Collection, principals: Sequence[str]) -> bool:
    """Whether a caller may ingest, change and delete. An empty list of writers means every reader."""
    writers = collection.settings.access.writers
    if not writers:
        return is_readable(collection, principals)
    return not set(writers).isdisjoint(principals)


def collection_id_from(name: str) -> str:
    """An id made from a name for people; empty when no letter or digit of it is left."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", ascii_name).strip("-_")[:MAX_COLLECTION_ID_LENGTH].rstrip("-_")
