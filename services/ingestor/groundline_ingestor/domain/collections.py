"""Collections: their ids, their access, and the partitions of their chunks."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from groundline.v1 import collection_pb2

EVERYONE: Final = "*"
"""Principal that stands for every caller."""

MAX_COLLECTION_ID_LENGTH: Final = 63


def is_readable(collection: collection_pb2.Collection, principals: Sequence[str]) -> bool:
    """Tell whether a caller may search and read."""
    access = collection.settings.access
    return _is_among(principals, (*access.readers, *access.writers, *access.admins))


def is_writable(collection: collection_pb2.Collection, principals: Sequence[str]) -> bool:
    """Tell whether a caller may create, change and delete documents."""
    return may_write(collection.settings.access, principals)


def may_write(access: collection_pb2.AccessSettings, principals: Sequence[str]) -> bool:
    """Tell whether complete access settings let a caller write."""
    return _is_among(principals, (*access.writers, *access.admins))


def may_download(collection: collection_pb2.Collection, principals: Sequence[str]) -> bool:
    """Tell whether a caller who may read documents may have them as they were handed in."""
    named = collection.settings.original_readers
    return not named or _is_among(principals, named) or is_writable(collection, principals)


def is_administrable(collection: collection_pb2.Collection, principals: Sequence[str]) -> bool:
    """Tell whether a caller may change the collection itself, and delete it."""
    return _is_among(principals, collection.settings.access.admins)


def complete_access(given: collection_pb2.AccessSettings, owner: str) -> collection_pb2.AccessSettings:
    """Return the access settings, with the owner in empty lists."""
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
    """Make an id from a name for people; "" when no letter or digit of it is left."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", ascii_name).strip("-_")[:MAX_COLLECTION_ID_LENGTH].rstrip("-_")
