"""Access to PostgreSQL that the services share."""

from groundline_database.access import (
    current_revision,
    is_held_document,
    is_readable_collection,
    is_readable_document,
    is_replaceable_document,
)
from groundline_database.codecs import quantized, quartile_of, register_codecs, register_vectors
from groundline_database.errors import database_errors
from groundline_database.keys import SigningKeyStore, StoredSigningKey, page_token_key
from groundline_database.migrations import (
    migrate,
    migrations_of,
    require_schema,
    schema_versions,
)
from groundline_database.models import stored_embedding_models
from groundline_database.notifications import listening
from groundline_database.pool import (
    Acquired,
    Connection,
    Pool,
    acquire,
    in_bulk,
    keep_session,
    open_pool,
    session,
    transaction,
)
from groundline_database.positions import (
    REPLAYED_POSITION,
    WRITTEN_POSITION,
    position_of,
    position_text,
)
from groundline_database.settings import DatabaseSettings
from groundline_database.statements import parse_statements, read_statements

__all__ = [
    "REPLAYED_POSITION",
    "WRITTEN_POSITION",
    "Acquired",
    "Connection",
    "DatabaseSettings",
    "Pool",
    "SigningKeyStore",
    "StoredSigningKey",
    "acquire",
    "current_revision",
    "database_errors",
    "in_bulk",
    "is_held_document",
    "is_readable_collection",
    "is_readable_document",
    "is_replaceable_document",
    "keep_session",
    "listening",
    "migrate",
    "migrations_of",
    "open_pool",
    "page_token_key",
    "parse_statements",
    "position_of",
    "position_text",
    "quantized",
    "quartile_of",
    "read_statements",
    "register_codecs",
    "register_vectors",
    "require_schema",
    "schema_versions",
    "session",
    "stored_embedding_models",
    "transaction",
]
