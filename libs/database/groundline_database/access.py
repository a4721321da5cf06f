"""SQL of who may read and replace what, and of the revision that is read: the only spelling of these rules.

An empty list restricts nothing. `principals` is the statement's expression for the caller's principals, such
as `$1`; `table` is the table's name or alias, if a column's name alone is ambiguous.
"""

from functools import lru_cache


def current_revision(table: str) -> str:
    """Return the name of the revision in use of a row of `documents`; those that have not changed since there
    are names have none stored."""
    return f"coalesce({table}.revision, document_revision({table}))"


def is_held_document(table: str) -> str:
    """Return the condition on a row with collection_id and document_id: the document, its collection, or a
    thread that cites it, is under a legal hold."""
    by_itself = (
        f"SELECT FROM legal_holds h WHERE h.collection_id = {table}.collection_id "
        f"AND (h.document_id IS NULL OR h.document_id = {table}.document_id)"
    )
    by_threads = (
        "SELECT FROM cited_revisions cited JOIN thread_holds USING (thread_id) "
        f"WHERE cited.document_id = {table}.document_id"
    )
    return f"(EXISTS ({by_itself}) OR EXISTS ({by_threads}))"


def is_readable_collection(principals: str, table: str = "") -> str:
    """Return the condition on `collections`: no readers, or the caller is a reader, a writer or an admin."""
    of, named = f"{table}." if table else "", f"{principals}::text[]"
    return (
        f"({of}readers = '{{}}' OR {of}readers && {named} OR {of}writers && {named} OR {of}admins && {named})"
    )


@lru_cache
def is_readable_document(principals: str, table: str = "") -> str:
    """Return the condition on `documents` and on chunks, within a readable collection."""
    of = f"{table}." if table else ""
    return f"({of}allowed_principals = '{{}}' OR {of}allowed_principals && {principals}::text[])"


def is_replaceable_document(principals: str, table: str, *, container: str = "''") -> str:
    """Return the condition on `documents`, within a writable collection: the caller may read it, or only its
    name is registered yet, or it is within the document of the uri `container` (SQL; empty for none), which
    the caller has just replaced."""
    is_within = f"{container} <> '' AND {table}.container_uri = {container}"
    is_readable = is_readable_document(principals, table)
    return f"({table}.ingestion_hash = ''::bytea OR {is_readable} OR {is_within})"
