"""Collections: their ids, who may use them, and the partitions that their chunks are in."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from groundline.v1 import collection_pb2

__all__ = [
    "EVERYONE",
    "StoredCollection",
    "collection_id_from",
    "complete_access",
    "is_administrable",
    "is_readable",
    "is_writable",
]

EVERYONE: Final = "*"
"""Stands for every caller among principals."""

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
    """Whether a caller may search and read."""
    access = collection.settings.access
    return _is_among(principals, (*access.readers, *access.writers, *access.admins))


def is_writable(collection: collection_pb2.Collection, principals: Sequence[str]) -> bool:
    """Whether a caller may bring documents in, change and delete them."""
    access = collection.settings.access
    return _is_among(principals, (*access.writers, *access.admins))


def is_administrable(collection: collection_pb2.Collection, principals: Sequence[str]) -> bool:
    """Whether a caller may change the collection itself, and delete it."""
    return _is_among(principals, collection.settings.access.admins)


def complete_access(given: collection_pb2.AccessSettings, owner: str) -> collection_pb2.AccessSettings:
    """Where a list that is empty is the owner's."""
    return collection_pb2.AccessSettings(
        readers=_named(given.readers, owner),
        writers=_named(given.writers, owner),
        admins=_named(given.admins, owner),
    )


def _named(principals: Sequence[str], owner: str) -> list[str]:
    return [EVERYONE] if EVERYONE in principals else list(dict.fromkeys(principals)) or [owner]


def _is_among(principals: Sequence[str], allowed: Sequence[str]) -> bool:
    return EVERYONE in allowed or not set(allowed).isdisjoint(principals)


def collection_id_from(name: str) -> str:
    """An id made from a name for people; empty when no letter or digit of it is left."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", ascii_name).strip("-_")[:MAX_COLLECTION_ID_LENGTH].rstrip("-_")
