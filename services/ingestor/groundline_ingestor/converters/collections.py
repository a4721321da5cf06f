"""Requests about collections, and collections as messages."""

from groundline.v1 import collection_pb2, ingestor_service_pb2
from groundline_runtime.errors import Violations

from groundline_ingestor.converters.common import (
    MAX_NAME_CHARACTERS,
    check_collection_id,
    check_request_id,
    check_text,
    page_size,
    page_token,
    read_page_token,
    timestamp,
)
from groundline_ingestor.converters.documents import state_value
from groundline_ingestor.converters.settings import (
    change_of,
    check_settings,
    effective_settings,
    language_of,
    settings_json,
)
from groundline_ingestor.domain import (
    Collection,
    CollectionChange,
    CollectionStats,
    NewCollection,
    collection_id_from,
)
from groundline_ingestor.service.pages import Page

__all__ = [
    "collection_change",
    "collection_id_of",
    "collection_message",
    "list_request",
    "list_response",
    "new_collection",
    "reindex_request",
    "stats_response",
]

_LIST = "collections"
_DEFAULT_PAGE_SIZE = 100
_INDEX_SETTINGS = ("chunking", "contextualization", "embedding", "lexical")


def new_collection(request: ingestor_service_pb2.CreateCollectionRequest) -> NewCollection:
    violations = Violations()
    collection_id = request.collection_id or collection_id_from(request.name)
    if request.collection_id:
        check_collection_id(request.collection_id, violations)
    elif not collection_id:
        violations.add("collection_id", "is needed, since none can be made from the name")
    check_text(request.name, "name", violations, most=MAX_NAME_CHARACTERS)
    check_settings(request.settings, violations)
    check_request_id(request.request_id, violations)
    violations.raise_if_any()
    return NewCollection(
        collection_id=collection_id,
        name=request.name,
        settings=settings_json(request.settings),
        embedding_model=request.settings.embedding.model,
        language=language_of(request.settings),
        readers=tuple(dict.fromkeys(request.settings.access.readers)),
        writers=tuple(dict.fromkeys(request.settings.access.writers)),
        request_id=request.request_id,
    )


def collection_id_of(
    request: ingestor_service_pb2.GetCollectionRequest
    | ingestor_service_pb2.DeleteCollectionRequest
    | ingestor_service_pb2.GetCollectionStatsRequest,
) -> str:
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    violations.raise_if_any()
    return request.collection_id


def list_request(request: ingestor_service_pb2.ListCollectionsRequest) -> tuple[str, int]:
    """The id that the page begins after, and the page's size."""
    violations = Violations()
    size = page_size(request.page_size, _DEFAULT_PAGE_SIZE, violations)
    key = read_page_token(request.page_token, _LIST, (str,), violations)
    violations.raise_if_any()
    return key[0] if key else "", size


def list_response(page: Page[Collection]) -> ingestor_service_pb2.ListCollectionsResponse:
    return ingestor_service_pb2.ListCollectionsResponse(
        collections=map(collection_message, page.entries),
        next_page_token=page_token(_LIST, page.entries[-1].collection_id) if page.more else "",
    )


def collection_change(request: ingestor_service_pb2.UpdateCollectionRequest) -> tuple[str, CollectionChange]:
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    check_text(request.name, "name", violations, most=MAX_NAME_CHARACTERS)
    check_settings(request.settings, violations)
    change = change_of(request.name, request.settings, request.update_mask.paths, violations)
    violations.raise_if_any()
    return request.collection_id, change


def reindex_request(
    request: ingestor_service_pb2.ReindexCollectionRequest,
) -> tuple[str, CollectionChange, str]:
    """Collection id, what the new index is built by, request_id."""
    violations = Violations()
    check_collection_id(request.collection_id, violations)
    check_request_id(request.request_id, violations)
    check_settings(request.settings, violations)
    for field, _ in request.settings.ListFields():
        if field.name not in _INDEX_SETTINGS:
            violations.add(
                f"settings.{field.name}", "is changed by UpdateCollection: the index is not built by it"
            )
    change = change_of("", request.settings, (), violations)
    violations.raise_if_any()
    return request.collection_id, change, request.request_id


def stats_response(stats: CollectionStats) -> ingestor_service_pb2.GetCollectionStatsResponse:
    return ingestor_service_pb2.GetCollectionStatsResponse(
        stats=ingestor_service_pb2.CollectionStats(
            states=[
                ingestor_service_pb2.StateCount(state=state_value(state), document_count=count)
                for state, count in sorted(stats.states.items())
            ],
            chunk_count=stats.chunk_count,
            vector_count=stats.vector_count,
            orphan_count=stats.orphan_count,
            document_bytes=stats.document_bytes,
            text_bytes=stats.text_bytes,
            storage_bytes=stats.storage_bytes,
            token_count=stats.token_count,
            vector_index=getattr(ingestor_service_pb2, f"VECTOR_INDEX_STATE_{stats.vector_index.name}"),
        )
    )


def collection_message(collection: Collection) -> collection_pb2.Collection:
    return collection_pb2.Collection(
        collection_id=collection.collection_id,
        name=collection.name,
        settings=effective_settings(collection),
        document_count=collection.document_count,
        chunk_count=collection.chunk_count,
        create_time=timestamp(collection.create_time),
        update_time=timestamp(collection.update_time),
    )
