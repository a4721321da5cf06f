"""The methods that the gateway offers.

Made from protos/groundline/v1 by `make generate`; do not edit.
"""

from typing import Final

from groundline_client import models
from groundline_client.transport.rpc import Rpc

LIST_API_KEYS: Final = Rpc("GET", "/api/keys", models.ApiKey, "keys", is_idempotent=True)
CREATE_API_KEY: Final = Rpc("POST", "/api/keys", models.CreateApiKeyResponse, has_body=True)
REVOKE_API_KEY: Final = Rpc(
    "POST", "/api/keys/{key_id}:revoke", models.ApiKey, "key", has_body=True, is_idempotent=True
)
LIST_AUDIT_ENTRIES: Final = Rpc("GET", "/api/audit", models.AuditEntry, "entries", is_idempotent=True)
CHAT: Final = Rpc("POST", "/api/chat", models.ChatResponse, has_body=True)
ANSWER: Final = Rpc("POST", "/api/answer", models.AnswerResponse, has_body=True)
VERIFY: Final = Rpc("POST", "/api/verify", models.VerifyResponse, has_body=True, is_idempotent=True)
GET_THREAD: Final = Rpc("GET", "/api/threads/{thread_id}", models.Thread, "thread", is_idempotent=True)
GET_THREAD_ENTRIES: Final = Rpc(
    "GET", "/api/threads/{thread_id}", models.Message, "messages", is_idempotent=True
)
LIST_THREADS: Final = Rpc("GET", "/api/threads", models.Thread, "threads", is_idempotent=True)
UPDATE_THREAD: Final = Rpc(
    "PATCH", "/api/threads/{thread_id}", models.Thread, "thread", has_body=True, is_idempotent=True
)
DELETE_THREAD: Final = Rpc(
    "DELETE", "/api/threads/{thread_id}", models.DeleteThreadResponse, is_idempotent=True
)
RATE_ANSWER: Final = Rpc(
    "POST",
    "/api/threads/{thread_id}/messages/{message_id}:rate",
    models.Feedback,
    "feedback",
    has_body=True,
    is_idempotent=True,
)
GET_EVIDENCE: Final = Rpc("GET", "/api/threads/{thread_id}/evidence", bytes, is_idempotent=True)
LIST_SIGNING_KEYS: Final = Rpc(
    "GET", "/.well-known/jwks.json", models.ListSigningKeysResponse, is_idempotent=True
)
LIST_MODELS: Final = Rpc("GET", "/api/models", models.ListModelsResponse, is_idempotent=True)
GET_QUOTAS: Final = Rpc("GET", "/api/quotas", models.GetQuotasResponse, is_idempotent=True)
GET_USAGE: Final = Rpc("GET", "/api/usage", models.GetUsageResponse, is_idempotent=True)
CREATE_COLLECTION: Final = Rpc(
    "POST", "/api/collections", models.Collection, "collection", has_body=True, is_idempotent=True
)
GET_COLLECTION: Final = Rpc(
    "GET", "/api/collections/{collection_id}", models.Collection, "collection", is_idempotent=True
)
LIST_COLLECTIONS: Final = Rpc("GET", "/api/collections", models.Collection, "collections", is_idempotent=True)
UPDATE_COLLECTION: Final = Rpc(
    "PATCH",
    "/api/collections/{collection_id}",
    models.Collection,
    "collection",
    has_body=True,
    is_idempotent=True,
)
DELETE_COLLECTION: Final = Rpc(
    "DELETE", "/api/collections/{collection_id}", models.DeleteCollectionResponse, is_idempotent=True
)
REINDEX_COLLECTION: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}:reindex",
    models.IngestionJob,
    "job",
    has_body=True,
    is_idempotent=True,
)
SWAP_INDEX: Final = Rpc(
    "POST", "/api/jobs/{job_id}:swap", models.IngestionJob, "job", has_body=True, is_idempotent=True
)
REVERT_INDEX: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}:revertIndex",
    models.IngestionJob,
    "job",
    has_body=True,
    is_idempotent=True,
)
RECLAIM_INDEX: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}:reclaimIndex",
    models.ReclaimIndexResponse,
    has_body=True,
    is_idempotent=True,
)
GET_COLLECTION_STATS: Final = Rpc(
    "GET", "/api/collections/{collection_id}/stats", models.CollectionStats, "stats", is_idempotent=True
)
INGEST_DOCUMENTS: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/documents",
    models.IngestDocumentsResponse,
    has_body=True,
    is_idempotent=True,
)
UPLOAD_DOCUMENT: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/documents:upload",
    models.UploadDocumentResponse,
    is_idempotent=True,
)
GET_DOCUMENT: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}",
    models.Document,
    "document",
    is_idempotent=True,
)
LIST_DOCUMENTS: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents", models.Document, "documents", is_idempotent=True
)
GET_DOCUMENT_TEXT: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/text",
    models.GetDocumentTextResponse,
    is_idempotent=True,
)
LIST_REVISIONS: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/revisions",
    models.Revision,
    "revisions",
    is_idempotent=True,
)
GET_REVISION: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/revisions/{revision}",
    models.Revision,
    "revision",
    is_idempotent=True,
)
COMPARE_REVISIONS: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/revisions/{revision}:compare",
    models.CompareRevisionsResponse,
    is_idempotent=True,
)
RESTORE_REVISION: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/documents/{document_id}/revisions/{revision}:restore",
    models.RestoreRevisionResponse,
    has_body=True,
    is_idempotent=True,
)
DOWNLOAD_DOCUMENT: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents/{document_id}:download", bytes, is_idempotent=True
)
GET_DOCUMENT_PAGE: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents/{document_id}/pages/{page}", bytes, is_idempotent=True
)
SET_LEGAL_HOLD: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}:hold",
    models.SetLegalHoldResponse,
    has_body=True,
    is_idempotent=True,
)
LIST_LEGAL_HOLDS: Final = Rpc(
    "GET", "/api/collections/{collection_id}/holds", models.LegalHold, "holds", is_idempotent=True
)
LIST_ERASURES: Final = Rpc("GET", "/api/erasures", models.Erasure, "erasures", is_idempotent=True)
GET_ERASURE_CERTIFICATE: Final = Rpc("GET", "/api/erasures/{erasure_id}", bytes, is_idempotent=True)
LIST_CHUNKS: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/chunks",
    models.Chunk,
    "chunks",
    is_idempotent=True,
)
DELETE_DOCUMENT: Final = Rpc(
    "DELETE",
    "/api/collections/{collection_id}/documents/{document_id}",
    models.DeleteDocumentResponse,
    is_idempotent=True,
)
DELETE_DOCUMENTS: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/documents:delete",
    models.DeleteDocumentsResponse,
    has_body=True,
    is_idempotent=True,
)
GET_JOB: Final = Rpc("GET", "/api/jobs/{job_id}", models.IngestionJob, "job", is_idempotent=True)
GET_JOB_ENTRIES: Final = Rpc("GET", "/api/jobs/{job_id}", models.IngestionItem, "items", is_idempotent=True)
LIST_JOBS: Final = Rpc("GET", "/api/jobs", models.IngestionJob, "jobs", is_idempotent=True)
WATCH_JOB: Final = Rpc("GET", "/api/jobs/{job_id}:watch", models.WatchJobResponse, is_idempotent=True)
CANCEL_JOB: Final = Rpc(
    "POST", "/api/jobs/{job_id}:cancel", models.IngestionJob, "job", has_body=True, is_idempotent=True
)
RETRY_JOB: Final = Rpc(
    "POST", "/api/jobs/{job_id}:retry", models.IngestionJob, "job", has_body=True, is_idempotent=True
)
REVERT_JOB: Final = Rpc(
    "POST", "/api/jobs/{job_id}:revert", models.RevertJobResponse, has_body=True, is_idempotent=True
)
CREATE_SOURCE: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/sources",
    models.DocumentSource,
    "source",
    has_body=True,
    is_idempotent=True,
)
GET_SOURCE: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/sources/{source_id}",
    models.DocumentSource,
    "source",
    is_idempotent=True,
)
LIST_SOURCES: Final = Rpc(
    "GET", "/api/collections/{collection_id}/sources", models.DocumentSource, "sources", is_idempotent=True
)
UPDATE_SOURCE: Final = Rpc(
    "PATCH",
    "/api/collections/{collection_id}/sources/{source_id}",
    models.DocumentSource,
    "source",
    has_body=True,
    is_idempotent=True,
)
RUN_SOURCE: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/sources/{source_id}:run",
    models.IngestionJob,
    "job",
    has_body=True,
    is_idempotent=True,
)
DELETE_SOURCE: Final = Rpc(
    "DELETE",
    "/api/collections/{collection_id}/sources/{source_id}",
    models.DeleteSourceResponse,
    is_idempotent=True,
)
SEARCH: Final = Rpc("POST", "/api/search", models.SearchResponse, has_body=True, is_idempotent=True)
QUERY_TABLES: Final = Rpc(
    "POST", "/api/tables/query", models.QueryTablesResponse, has_body=True, is_idempotent=True
)
