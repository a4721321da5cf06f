"""Collections as tests need them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import json_format
from groundline.v1 import collection_pb2
from groundline_ingestor.domain.collections import EVERYONE, StoredCollection, complete_access

__all__ = ["EVERYONES_ACCESS", "a_collection", "settings_of", "stored_collection"]


EVERYONES_ACCESS: Final = {"readers": [EVERYONE], "writers": [EVERYONE], "admins": [EVERYONE]}
"""AccessSettings in JSON, of what callers without principals may use."""


def settings_of(values: Mapping[str, Any]) -> collection_pb2.CollectionSettings:
    """Settings by their JSON."""
    return json_format.ParseDict(dict(values), collection_pb2.CollectionSettings())


def a_collection(
    collection_id: str = "docs",
    *,
    model: str = "model",
    dimensions: int = 8,
    readers: Sequence[str] = (EVERYONE,),
    writers: Sequence[str] = (EVERYONE,),
    **settings: Any,
) -> collection_pb2.Collection:
    """A collection to store; `settings` are parts of the settings by their JSON names."""
    chosen = settings_of(settings)
    chosen.embedding.model, chosen.embedding.dimensions = model, dimensions
    chosen.lexical.language = chosen.lexical.language or "english"
    access = collection_pb2.AccessSettings(readers=readers, writers=writers, admins=writers)
    chosen.access.CopyFrom(complete_access(access, EVERYONE))
    return collection_pb2.Collection(collection_id=collection_id, name=collection_id, settings=chosen)


def stored_collection(collection_id: str = "docs", **settings: Any) -> StoredCollection:
    """One that was not stored really."""
    return StoredCollection(a_collection(collection_id, **settings), 1)
