"""Collections and versions of documents as tests need them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import json_format
from groundline.v1 import collection_pb2, passage_pb2
from groundline_indexing.collections import EVERYONE, StoredCollection
from groundline_indexing.documents import DocumentVersion
from groundline_ingestor.domain.collections import complete_access

EVERYONES_ACCESS: Final = {"readers": [EVERYONE], "writers": [EVERYONE], "admins": [EVERYONE]}
"""AccessSettings in JSON for collections that callers without principals may use."""


def settings_of(values: Mapping[str, Any]) -> collection_pb2.CollectionSettings:
    """Parse settings from their JSON."""
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
    """Return a collection to store; `settings` are parts of the settings by their JSON names."""
    chosen = settings_of(settings)
    chosen.embedding.model, chosen.embedding.dimensions = model, dimensions
    chosen.lexical.language = chosen.lexical.language or "english"
    access = collection_pb2.AccessSettings(readers=readers, writers=writers, admins=writers)
    chosen.access.CopyFrom(complete_access(access, EVERYONE))
    return collection_pb2.Collection(collection_id=collection_id, name=collection_id, settings=chosen)


def stored_collection(collection_id: str = "docs", **settings: Any) -> StoredCollection:
    """Return a collection that was not really stored."""
    return StoredCollection(a_collection(collection_id, **settings), 1)


def a_version(uri: str, content: str, *, mime_type: str = "text/markdown") -> DocumentVersion:
    """Return a version of a file with that content, which everyone may read."""
    return DocumentVersion(
        uri=uri,
        source_type=passage_pb2.SOURCE_TYPE_FILE,
        title=uri,
        mime_type=mime_type,
        content_hash=content.encode(),
        input_hash=content.encode(),
        ingestion_hash=content.encode(),
        size_bytes=len(content),
        metadata={},
        allowed_principals=(),
    )
