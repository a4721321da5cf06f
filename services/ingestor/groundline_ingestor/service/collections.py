"""Collections: creating, reading, changing, deleting."""

from urllib.parse import urlsplit

import structlog
from groundline.v1 import collection_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_embedding import Embedders
from groundline_indexing.collections import EVERYONE, mismatch
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    FieldViolation,
    InvalidArgumentError,
)
from groundline_runtime.paging import PageTokens, page_size
from groundline_validation import violations_of

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.domain.collections import collection_id_from, complete_access, is_readable
from groundline_ingestor.domain.settings import changed, effective, effective_language, etag_of, wrong_paths
from groundline_ingestor.service.access import (
    administrable_collection,
    collection_not_found,
    readable_collection,
)
from groundline_ingestor.service.erasures import ErasureService
from groundline_ingestor.service.quotas import Quotas

_log = structlog.get_logger(__name__)


class CollectionService:
    """Use cases of collections, with those of erasures; every method acts for `caller`."""

    def __init__(
        self,
        collections: PostgresCollections,
        embedders: Embedders,
        quotas: Quotas,
        erasures: ErasureService,
        page_tokens: PageTokens,
    ) -> None:
        self._collections = collections
        self._embedders = embedders
        self._quotas = quotas
        self.erasures = erasures
        self._page_tokens = page_tokens

    async def create(self, caller: Caller, request: pb.CreateCollectionRequest) -> collection_pb2.Collection:
        """Create a collection, or return the one that the caller's same `request_id` created. A dry run
        returns the collection as it would be.

        Raises InvalidArgumentError, AlreadyExistsError, FailedPreconditionError (EMBEDDING_MODEL_MISMATCH),
        ResourceExhaustedError (QUOTA_EXHAUSTED).
        """
        new = self._complete(caller, request)
        if request.dry_run:
            await self._collections.require_free(new.collection_id)
            return shown(new)
        stored = await self._collections.create(
            new, caller.owner, request.request_id, maximum=self._quotas.max_collections
        )
        created = stored.message
        # Its creator may have lost access since.
        if created.collection_id != new.collection_id or not is_readable(created, caller.principals):
            raise AlreadyExistsError("REQUEST_ID_USED", "the request_id was used for another collection")
        _log.info("collection_created", collection_id=created.collection_id)
        return shown(created)

    async def get(self, caller: Caller, collection_id: str) -> collection_pb2.Collection:
        """Return a collection. Raises NotFoundError."""
        return shown((await readable_collection(self._collections, caller, collection_id)).message)

    async def list(self, caller: Caller, request: pb.ListCollectionsRequest) -> pb.ListCollectionsResponse:
        """Return a page of readable collections, by id. Raises InvalidArgumentError for a wrong token."""
        [after] = self._page_tokens.key_in(request, caller) or ("",)
        limit = page_size(request) + 1
        found = await self._collections.list_readable(caller.principals, after=after, limit=limit)
        page, token = self._page_tokens.page_of(request, caller, found, lambda one: (one.collection_id,))
        return pb.ListCollectionsResponse(
            collections=[shown(one.message) for one in page], next_page_token=token
        )

    async def update(self, caller: Caller, request: pb.UpdateCollectionRequest) -> collection_pb2.Collection:
        """Change name, settings and access. A dry run returns the collection as it would be.

        Raises InvalidArgumentError, NotFoundError, PermissionDeniedError, AbortedError (somebody else changed
        it in between, or since it had the etag of the request), FailedPreconditionError (REINDEX_REQUIRED).
        """
        if wrong := wrong_paths(request.update_mask):
            raise InvalidArgumentError(
                FieldViolation("update_mask", f"{path[:100]!r} is not a path that can be changed")
                for path in wrong
            )
        collection = await administrable_collection(self._collections, caller, request.collection_id)
        if request.etag and request.etag != etag_of(collection.message):
            raise _changed_meanwhile()
        after = changed(collection.message, request)
        if after.settings.embedding.model != collection.settings.embedding.model:
            raise _reindex_required("settings.embedding.model", collection.settings.embedding.model)
        if after.settings.lexical.language != collection.settings.lexical.language:
            raise _reindex_required("settings.lexical.language", collection.settings.lexical.language)
        after.settings.access.CopyFrom(_access(caller, after.settings.access))
        # The request is valid by itself; together with the stored settings it may not be.
        violations_of(after.settings, "settings").raise_if_any()
        _require_encrypted(after.settings)
        if request.dry_run:
            return shown(after)
        is_updated = await self._collections.update(after)
        found = await self._collections.find(request.collection_id, caller.principals)
        if found is None:
            raise collection_not_found(request.collection_id)
        if not is_updated:
            raise _changed_meanwhile()
        return shown(found.message)

    async def delete(self, caller: Caller, collection_id: str) -> None:
        """Delete a collection. Raises NotFoundError, PermissionDeniedError."""
        await administrable_collection(self._collections, caller, collection_id)
        if not await self._collections.delete(collection_id):
            raise collection_not_found(collection_id)
        _log.info("collection_deleted", collection_id=collection_id)

    def _complete(self, caller: Caller, request: pb.CreateCollectionRequest) -> collection_pb2.Collection:
        collection_id = request.collection_id or collection_id_from(request.name)
        if not collection_id:
            raise InvalidArgumentError(
                [FieldViolation("collection_id", "is needed, since none can be made from the name")]
            )
        asked = request.settings.embedding.model
        language = effective_language(request.settings)
        embedder = self._embedders.of(asked) if asked else self._embedders.for_language(language)
        if embedder is None:
            raise mismatch(f"the collection asks for {asked!r}", self._embedders)
        new = collection_pb2.Collection(
            collection_id=collection_id, name=request.name or collection_id, settings=request.settings
        )
        new.settings.embedding.model = embedder.model
        new.settings.embedding.dimensions = embedder.dimensions
        new.settings.lexical.language = language
        new.settings.access.CopyFrom(_access(caller, request.settings.access))
        _require_encrypted(new.settings)
        return new


def _require_encrypted(settings: collection_pb2.CollectionSettings) -> None:
    """Raise InvalidArgumentError if a webhook would be called in plain text over the internet."""
    if not settings.crawl.allow_private_addresses:
        wrong = [
            FieldViolation(
                f"settings.webhooks[{index}].url",
                "must be https, unless crawl.allow_private_addresses is true",
            )
            for index, webhook in enumerate(settings.webhooks)
            if urlsplit(webhook.url).scheme != "https"
        ]
        if wrong:
            raise InvalidArgumentError(wrong)


def _access(caller: Caller, given: collection_pb2.AccessSettings) -> collection_pb2.AccessSettings:
    """Return the access of a collection that the caller creates or changes. Raises InvalidArgumentError if
    nobody could use it, or everyone may do more with it, and only some less."""
    access = complete_access(given, caller.owner)
    lists = {"readers": access.readers, "writers": access.writers, "admins": access.admins}
    wrong = {
        name: 'must name who may, "*" for everyone: the caller has no principals'
        for name, principals in lists.items()
        if not any(principals)
    }
    for less, more in (("readers", "writers"), ("writers", "admins")):
        if EVERYONE in lists[more] and EVERYONE not in lists[less]:
            wrong.setdefault(less, f'must be "*", since {more} are: they may do this too')
    if wrong:
        raise InvalidArgumentError(FieldViolation(f"settings.access.{name}", wrong[name]) for name in wrong)
    return access


def shown(collection: collection_pb2.Collection) -> collection_pb2.Collection:
    """Return the collection as clients see it: with the defaults of its own settings, and its etag."""
    copy = collection_pb2.Collection()
    copy.CopyFrom(collection)
    copy.etag = etag_of(collection)
    copy.settings.CopyFrom(effective(collection.settings))
    return copy


def _changed_meanwhile() -> AbortedError:
    return AbortedError("COLLECTION_CHANGED", "the collection was changed meanwhile; try again")


def _reindex_required(field: str, current: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "REINDEX_REQUIRED",
        f"{field} is {current!r}; changing it takes ReindexCollection",
        metadata={"field": field},
    )
