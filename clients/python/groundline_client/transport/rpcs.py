"""The methods that the gateway offers.

Made from protos/groundline/v1 by `make generate`; do not edit.
"""

from typing import Final

from groundline_client import models
from groundline_client.transport.rpc import Rpc

LIST_API_KEYS: Final = Rpc("GET", "/api/keys", models.ApiKey, "keys")
CREATE_API_KEY: Final = Rpc("POST", "/api/keys", models.CreateApiKeyResponse, is_idempotent=False)
REVOKE_API_KEY: Final = Rpc("POST", "/api/keys/{key_id}:revoke", models.ApiKey, "key")
LIST_AUDIT_ENTRIES: Final = Rpc("GET", "/api/audit", models.AuditEntry, "entries")
CHAT: Final = Rpc("POST", "/api/chat", models.ChatResponse, is_idempotent=False)
ANSWER: Final = Rpc("POST", "/api/answer", models.AnswerResponse, is_idempotent=False)
VERIFY: Final = Rpc("POST", "/api/verify", models.VerifyResponse)
GET_THREAD: Final = Rpc("GET", "/api/threads/{thread_id}", models.Thread, "thread")
GET_THREAD_ENTRIES: Final = Rpc("GET", "/api/threads/{thread_id}", models.Message, "messages")
LIST_THREADS: Final = Rpc("GET", "/api/threads", models.Thread, "threads")
UPDATE_THREAD: Final = Rpc("PATCH", "/api/threads/{thread_id}", models.Thread, "thread")
DELETE_THREAD: Final = Rpc("DELETE", "/api/threads/{thread_id}", models.DeleteThreadResponse)
RATE_ANSWER: Final = Rpc(
    "POST", "/api/threads/{thread_id}/messages/{message_id}:rate", models.Feedback, "feedback"
)
GET_EVIDENCE: Final = Rpc("GET", "/api/threads/{thread_id}/evidence", bytes)
LIST_SIGNING_KEYS: Final = Rpc("GET", "/.well-known/jwks.json", models.ListSigningKeysResponse)
LIST_MODELS: Final = Rpc("GET", "/api/models", models.ListModelsResponse)
GET_QUOTAS: Final = Rpc("GET", "/api/quotas", models.GetQuotasResponse)
GET_USAGE: Final = Rpc("GET", "/api/usage", models.GetUsageResponse)
CREATE_COLLECTION: Final = Rpc("POST", "/api/collections", models.Collection, "collection")
GET_COLLECTION: Final = Rpc("GET", "/api/collections/{collection_id}", models.Collection, "collection")
LIST_COLLECTIONS: Final = Rpc("GET", "/api/collections", models.Collection, "collections")
UPDATE_COLLECTION: Final = Rpc("PATCH", "/api/collections/{collection_id}", models.Collection, "collection")
DELETE_COLLECTION: Final = Rpc("DELETE", "/api/collections/{collection_id}", models.DeleteCollectionResponse)
REINDEX_COLLECTION: Final = Rpc(
    "POST", "/api/collections/{collection_id}:reindex", models.IngestionJob, "job"
)
SWAP_INDEX: Final = Rpc("POST", "/api/jobs/{job_id}:swap", models.IngestionJob, "job")
REVERT_INDEX: Final = Rpc("POST", "/api/collections/{collection_id}:revertIndex", models.IngestionJob, "job")
RECLAIM_INDEX: Final = Rpc(
    "POST", "/api/collections/{collection_id}:reclaimIndex", models.ReclaimIndexResponse
)
GET_COLLECTION_STATS: Final = Rpc(
    "GET", "/api/collections/{collection_id}/stats", models.CollectionStats, "stats"
)
INGEST_DOCUMENTS: Final = Rpc(
    "POST", "/api/collections/{collection_id}/documents", models.IngestDocumentsResponse
)
UPLOAD_DOCUMENT: Final = Rpc(
    "POST", "/api/collections/{collection_id}/documents:upload", models.UploadDocumentResponse, is_upload=True
)
GET_DOCUMENT: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents/{document_id}", models.Document, "document"
)
LIST_DOCUMENTS: Final = Rpc("GET", "/api/collections/{collection_id}/documents", models.Document, "documents")
GET_DOCUMENT_TEXT: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents/{document_id}/text", models.GetDocumentTextResponse
)
LIST_REVISIONS: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents/{document_id}/revisions", models.Revision, "revisions"
)
GET_REVISION: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/revisions/{revision}",
    models.Revision,
    "revision",
)
COMPARE_REVISIONS: Final = Rpc(
    "GET",
    "/api/collections/{collection_id}/documents/{document_id}/revisions/{revision}:compare",
    models.CompareRevisionsResponse,
)
RESTORE_REVISION: Final = Rpc(
    "POST",
    "/api/collections/{collection_id}/documents/{document_id}/revisions/{revision}:restore",
    models.RestoreRevisionResponse,
)
DOWNLOAD_DOCUMENT: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents/{document_id}:download", bytes
)
GET_DOCUMENT_PAGE: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents/{document_id}/pages/{page}", bytes
)
SET_LEGAL_HOLD: Final = Rpc("POST", "/api/collections/{collection_id}:hold", models.SetLegalHoldResponse)
LIST_LEGAL_HOLDS: Final = Rpc("GET", "/api/collections/{collection_id}/holds", models.LegalHold, "holds")
LIST_ERASURES: Final = Rpc("GET", "/api/erasures", models.Erasure, "erasures")
GET_ERASURE_CERTIFICATE: Final = Rpc("GET", "/api/erasures/{erasure_id}", bytes)
LIST_CHUNKS: Final = Rpc(
    "GET", "/api/collections/{collection_id}/documents/{document_id}/chunks", models.Chunk, "chunks"
)
DELETE_DOCUMENT: Final = Rpc(
    "DELETE", "/api/collections/{collection_id}/documents/{document_id}", models.DeleteDocumentResponse
)
DELETE_DOCUMENTS: Final = Rpc(
    "POST", "/api/collections/{collection_id}/documents:delete", models.DeleteDocumentsResponse
)
GET_JOB: Final = Rpc("GET", "/api/jobs/{job_id}", models.IngestionJob, "job")
GET_JOB_ENTRIES: Final = Rpc("GET", "/api/jobs/{job_id}", models.IngestionItem, "items")
LIST_JOBS: Final = Rpc("GET", "/api/jobs", models.IngestionJob, "jobs")
WATCH_JOB: Final = Rpc("GET", "/api/jobs/{job_id}:watch", models.WatchJobResponse)
CANCEL_JOB: Final = Rpc("POST", "/api/jobs/{job_id}:cancel", models.IngestionJob, "job")
RETRY_JOB: Final = Rpc("POST", "/api/jobs/{job_id}:retry", models.IngestionJob, "job")
REVERT_JOB: Final = Rpc("POST", "/api/jobs/{job_id}:revert", models.RevertJobResponse)
CREATE_SOURCE: Final = Rpc(
    "POST", "/api/collections/{collection_id}/sources", models.DocumentSource, "source"
)
GET_SOURCE: Final = Rpc(
    "GET", "/api/collections/{collection_id}/sources/{source_id}", models.DocumentSource, "source"
)
LIST_SOURCES: Final = Rpc("GET", "/api/collections/{collection_id}/sources", models.DocumentSource, "sources")
UPDATE_SOURCE: Final = Rpc(
    "PATCH", "/api/collections/{collection_id}/sources/{source_id}", models.DocumentSource, "source"
)
RUN_SOURCE: Final = Rpc(
    "POST", "/api/collections/{collection_id}/sources/{source_id}:run", models.IngestionJob, "job"
)
DELETE_SOURCE: Final = Rpc(
    "DELETE", "/api/collections/{collection_id}/sources/{source_id}", models.DeleteSourceResponse
)
SEARCH: Final = Rpc("POST", "/api/search", models.SearchResponse)
QUERY_TABLES: Final = Rpc("POST", "/api/tables/query", models.QueryTablesResponse)
