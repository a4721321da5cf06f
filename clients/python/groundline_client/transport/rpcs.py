"""The methods that the gateway offers.

Made from protos/groundline/v1 by `make generate`; do not edit.
"""

from typing import Final

from groundline_client.models import (
    AnswerResponse,
    CancelJobResponse,
    ChatResponse,
    CreateCollectionResponse,
    CreateSourceResponse,
    DeleteCollectionResponse,
    DeleteDocumentResponse,
    DeleteDocumentsResponse,
    DeleteSourceResponse,
    DeleteThreadResponse,
    GetCollectionResponse,
    GetCollectionStatsResponse,
    GetDocumentResponse,
    GetDocumentTextResponse,
    GetJobResponse,
    GetQuotasResponse,
    GetSourceResponse,
    GetThreadResponse,
    IngestDocumentsResponse,
    ListChunksResponse,
    ListCollectionsResponse,
    ListDocumentsResponse,
    ListJobsResponse,
    ListSourcesResponse,
    ListThreadsResponse,
    ReindexCollectionResponse,
    RetryJobResponse,
    RunSourceResponse,
    SearchResponse,
    UpdateCollectionResponse,
    UpdateSourceResponse,
    UploadDocumentResponse,
    WatchJobResponse,
)
from groundline_client.transport.rpc import Rpc

__all__ = [
    "ANSWER",
    "CANCEL_JOB",
    "CHAT",
    "CREATE_COLLECTION",
    "CREATE_SOURCE",
    "DELETE_COLLECTION",
    "DELETE_DOCUMENT",
    "DELETE_DOCUMENTS",
    "DELETE_SOURCE",
    "DELETE_THREAD",
    "DOWNLOAD_DOCUMENT",
    "GET_COLLECTION",
    "GET_COLLECTION_STATS",
    "GET_DOCUMENT",
    "GET_DOCUMENT_TEXT",
    "GET_JOB",
    "GET_QUOTAS",
    "GET_SOURCE",
    "GET_THREAD",
    "INGEST_DOCUMENTS",
    "LIST_CHUNKS",
    "LIST_COLLECTIONS",
    "LIST_DOCUMENTS",
    "LIST_JOBS",
    "LIST_SOURCES",
    "LIST_THREADS",
    "REINDEX_COLLECTION",
    "RETRY_JOB",
    "RUN_SOURCE",
    "SEARCH",
    "UPDATE_COLLECTION",
    "UPDATE_SOURCE",
    "UPLOAD_DOCUMENT",
    "WATCH_JOB",
]

CHAT: Final = Rpc("POST", "/api/chat", ChatResponse, has_body=True, is_idempotent=False)
ANSWER: Final = Rpc("POST", "/api/answer", AnswerResponse, has_body=True, is_idempotent=False)
GET_THREAD: Final = Rpc(
    "GET", "/api/threads/{thread_id}", GetThreadResponse, has_body=False, is_idempotent=True
)
LIST_THREADS: Final = Rpc("GET", "/api/threads", ListThreadsResponse, has_body=False, is_idempotent=True)
DELETE_THREAD: Final = Rpc(
    "DELETE", "/api/threads/{thread_id}", DeleteThreadResponse, has_body=False, is_idempotent=True
)
GET_QUOTAS: Final = Rpc("GET", "/api/quotas", GetQuotasResponse, has_body=False, is_idempotent=True)
CREATE_COLLECTION: Final = Rpc(
    "POST", "/api/collections", CreateCollectionResponse, has_body=True, is_idempotent=True
)
GET_COLLECTION: Final = Rpc(
    "GET", "/api/collections/{collection_id}", GetCollectionResponse, has_body=False, is_idempotent=True
)
LIST_COLLECTIONS: Final = Rpc(
    "GET", "/api/collections", ListCollectionsResponse, has_body=False, is_idempotent=True
)
UPDATE_COLLECTION: Final = Rpc(
    "PATCH", "/api/collections/{collection_id}", UpdateCollectionResponse, has_body=True, is_idempotent=True
)
DELETE_COLLECTION: Final = Rpc(
    "DELETE", "/api/collections/{collection_id}", DeleteCollectionResponse, has_body=False, is_idempotent=True
)
REINDEX_COLLECTION: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}:reindex",
    ReindexCollectionResponse,
    has_body=True,
    is_idempotent=True,
)
GET_COLLECTION_STATS: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/stats",
    GetCollectionStatsResponse,
    has_body=False,
    is_idempotent=True,
)
INGEST_DOCUMENTS: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/documents",
    IngestDocumentsResponse,
    has_body=True,
    is_idempotent=True,
)
UPLOAD_DOCUMENT: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/documents:upload",
    UploadDocumentResponse,
    has_body=False,
    is_idempotent=True,
)
GET_DOCUMENT: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}",
    GetDocumentResponse,
    has_body=False,
    is_idempotent=True,
)
LIST_DOCUMENTS: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents",
    ListDocumentsResponse,
    has_body=False,
    is_idempotent=True,
)
GET_DOCUMENT_TEXT: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/text",
    GetDocumentTextResponse,
    has_body=False,
    is_idempotent=True,
)
DOWNLOAD_DOCUMENT: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}:download",
    bytes,
    has_body=False,
    is_idempotent=True,
)
LIST_CHUNKS: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/chunks",
    ListChunksResponse,
    has_body=False,
    is_idempotent=True,
)
DELETE_DOCUMENT: Final = Rpc(
    "DELETE",
    "/api/collections/{collection_id}/documents/{document_id}",
    DeleteDocumentResponse,
    has_body=False,
    is_idempotent=True,
)
DELETE_DOCUMENTS: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/documents:delete",
    DeleteDocumentsResponse,
    has_body=True,
    is_idempotent=True,
)
GET_JOB: Final = Rpc("GET", "/api/jobs/{job_id}", GetJobResponse, has_body=False, is_idempotent=True)
LIST_JOBS: Final = Rpc("GET", "/api/jobs", ListJobsResponse, has_body=False, is_idempotent=True)
WATCH_JOB: Final = Rpc(
    "GET", "/api/jobs/{job_id}:watch", WatchJobResponse, has_body=False, is_idempotent=True
)
CANCEL_JOB: Final = Rpc(
    "POST", "/api/jobs/{job_id}:cancel", CancelJobResponse, has_body=True, is_idempotent=True
)
RETRY_JOB: Final = Rpc(
    "POST", "/api/jobs/{job_id}:retry", RetryJobResponse, has_body=True, is_idempotent=True
)
CREATE_SOURCE: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/sources",
    CreateSourceResponse,
    has_body=True,
    is_idempotent=True,
)
GET_SOURCE: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/sources/{source_id}",
    GetSourceResponse,
    has_body=False,
    is_idempotent=True,
)
LIST_SOURCES: Final = Rpc(
    "GET", "/api/collections/{collection_id}/sources", ListSourcesResponse, has_body=False, is_idempotent=True
)
UPDATE_SOURCE: Final = Rpc(
    "PATCH",
    "/api/collections/{collection_id}/sources/{source_id}",
    UpdateSourceResponse,
    has_body=True,
    is_idempotent=True,
)
RUN_SOURCE: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/sources/{source_id}:run",
    RunSourceResponse,
    has_body=True,
    is_idempotent=True,
)
DELETE_SOURCE: Final = Rpc(
    "DELETE",
    "/api/collections/{collection_id}/sources/{source_id}",
    DeleteSourceResponse,
    has_body=False,
    is_idempotent=True,
)
SEARCH: Final = Rpc("POST", "/api/search", SearchResponse, has_body=True, is_idempotent=True)
