"""Look-up of collections and documents on a caller's behalf."""

from groundline.v1 import document_pb2, job_pb2
from groundline_indexing.collections import StoredCollection
from groundline_runtime.context import Caller
from groundline_runtime.errors import NotFoundError, PermissionDeniedError

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.documents.reading import PostgresDocuments
from groundline_ingestor.adapters.postgres.jobs import PostgresJobs
from groundline_ingestor.domain.collections import is_administrable, is_readable, is_writable
from groundline_ingestor.domain.documents import is_document_readable


async def readable_collection(
    collections: PostgresCollections, caller: Caller, collection_id: str
) -> StoredCollection:
    """Return the collection, as the caller sees it. Raises NotFoundError, also when the caller may not read
    it."""
    collection = await collections.find(collection_id, caller.principals)
    if collection is None or not is_readable(collection.message, caller.principals):
        raise collection_not_found(collection_id)
    return collection


async def writable_collection(
    collections: PostgresCollections, caller: Caller, collection_id: str
) -> StoredCollection:
    """Return the collection. Raises NotFoundError when the caller may not read it, PermissionDeniedError when
    it may only read."""
    collection = await readable_collection(collections, caller, collection_id)
    if not is_writable(collection.message, caller.principals):
        raise PermissionDeniedError(
            "COLLECTION_NOT_WRITABLE", f"the collection {collection_id!r} may be read, but not changed"
        )
    return collection


async def administrable_collection(
    collections: PostgresCollections, caller: Caller, collection_id: str
) -> StoredCollection:
    """Return the collection. Raises NotFoundError when the caller may not read it, PermissionDeniedError when
    it may not administer it."""
    collection = await readable_collection(collections, caller, collection_id)
    if not is_administrable(collection.message, caller.principals):
        raise PermissionDeniedError(
            "COLLECTION_NOT_ADMINISTRABLE",
            f"the collection {collection_id!r} may be used, but not administered",
        )
    return collection


async def readable_document(
    collections: PostgresCollections,
    documents: PostgresDocuments,
    caller: Caller,
    collection_id: str,
    document_id: str,
) -> document_pb2.Document:
    """Return the document. Raises NotFoundError, also when the caller may not read it or its collection."""
    await readable_collection(collections, caller, collection_id)
    document = await documents.find(collection_id, document_id)
    if document is None or not is_document_readable(document, caller.principals):
        raise document_not_found(document_id)
    return document


def collection_not_found(collection_id: str) -> NotFoundError:
    return NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection_id!r}")


def document_not_found(document_id: str) -> NotFoundError:
    return NotFoundError("DOCUMENT_NOT_FOUND", f"no document {document_id}")


async def readable_job(
    collections: PostgresCollections, jobs: PostgresJobs, caller: Caller, job_id: str
) -> job_pb2.IngestionJob:
    """Return the job, as the caller sees it. Raises NotFoundError, also when the caller may not read its
    collection."""
    job = await jobs.find(job_id, caller.principals)
    collection = await collections.find(job.collection_id) if job else None
    if job is None or collection is None or not is_readable(collection.message, caller.principals):
        raise NotFoundError("JOB_NOT_FOUND", f"no job {job_id}")
    return job
