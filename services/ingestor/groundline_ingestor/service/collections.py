"""Collections: creating, reading, changing, deleting."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog
from groundline_embedding import Embedder
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
)

from groundline_ingestor.domain import (
    Collection,
    CollectionChange,
    NewCollection,
    is_readable,
    settings_violations,
    with_changes,
)
from groundline_ingestor.ports import CollectionRepository
from groundline_ingestor.service.access import collection_not_found, readable_collection, writable_collection
from groundline_ingestor.service.pages import Page

__all__ = ["CollectionService", "require_running_model"]

_log = structlog.get_logger(__name__)


class CollectionService:
    """Use cases of collections; every method acts for `caller`."""

    def __init__(self, collections: CollectionRepository, embedder: Embedder) -> None:
        self._collections = collections
        self._embedder = embedder

    async def create(self, caller: Caller, new: NewCollection) -> Collection:
        """Create a collection, or return the one that the same `request_id` created.

        Raises InvalidArgumentError, AlreadyExistsError, FailedPreconditionError (EMBEDDING_MODEL_MISMATCH).
        """
        _require_valid(new.settings)
        if new.embedding_model and new.embedding_model != self._embedder.model:
            raise _mismatch(f"the collection asks for {new.embedding_model!r}", self._embedder.model)
        new = replace(new, name=new.name or new.collection_id, embedding_model=self._embedder.model)
        created = await self._collections.create(new, self._embedder.dimensions)
        same_access = (created.readers, created.writers) == (new.readers, new.writers)
        if created.collection_id != new.collection_id or not (
            same_access or is_readable(created, caller.principals)
        ):
            raise AlreadyExistsError("REQUEST_ID_USED", "the request_id was used for another collection")
        _log.info("collection_created", collection_id=created.collection_id)
        return created

    async def get(self, caller: Caller, collection_id: str) -> Collection:
        """Raises NotFoundError."""
        return await readable_collection(self._collections, caller, collection_id)

    async def list(self, caller: Caller, *, after: str, size: int) -> Page[Collection]:
        """Readable collections by id, above the id `after`."""
        found = await self._collections.list_readable(caller.principals, after=after, limit=size + 1)
        return Page.of(found, size)

    async def update(self, caller: Caller, collection_id: str, change: CollectionChange) -> Collection:
        """Change name, settings and access.

        Raises InvalidArgumentError, NotFoundError, PermissionDeniedError, AbortedError
        (somebody else changed it in between), FailedPreconditionError (REINDEX_REQUIRED).
        """
        collection = await writable_collection(self._collections, caller, collection_id)
        partition = collection.partition
        if change.embedding_model not in (None, partition.embedding_model):
            raise _reindex_required("settings.embedding.model", partition.embedding_model)
        if change.language not in (None, partition.language):
            raise _reindex_required("settings.lexical.language", partition.language)
        settings = with_changes(collection.settings, change.settings)
        _require_valid(settings)
        updated = await self._collections.update(
            collection_id,
            name=collection.name if change.name is None else change.name or collection_id,
            settings=settings,
            readers=collection.readers if change.readers is None else change.readers,
            writers=collection.writers if change.writers is None else change.writers,
            seen=collection.update_time,
        )
        found = await self._collections.find(collection_id)
        if found is None:
            raise collection_not_found(collection_id)
        if not updated:
            raise AbortedError("COLLECTION_CHANGED", "the collection was changed meanwhile; try again")
        return found

    async def delete(self, caller: Caller, collection_id: str) -> None:
        """Raises NotFoundError, PermissionDeniedError."""
        await writable_collection(self._collections, caller, collection_id)
        if not await self._collections.delete(collection_id):
            raise collection_not_found(collection_id)
        _log.info("collection_deleted", collection_id=collection_id)


def require_running_model(collection: Collection, embedder: Embedder) -> None:
    """Raise FailedPreconditionError unless the collection's vectors are the running model's."""
    partition = collection.partition
    if (partition.embedding_model, partition.dimensions) != (embedder.model, embedder.dimensions):
        raise _mismatch(
            f"the collection {collection.collection_id!r} was embedded with {partition.embedding_model!r}",
            embedder.model,
        )


def _require_valid(settings: Mapping[str, Any]) -> None:
    if violations := settings_violations(settings):
        raise InvalidArgumentError(violations)


def _mismatch(what: str, running: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "EMBEDDING_MODEL_MISMATCH", f"{what}, but the running embedding model is {running!r}"
    )


def _reindex_required(field: str, current: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "REINDEX_REQUIRED",
        f"{field} is {current!r}; changing it takes ReindexCollection",
        metadata={"field": field},
    )
