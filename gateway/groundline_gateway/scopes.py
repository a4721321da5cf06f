"""Scopes that a caller needs for each RPC."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """A permission of a key or token. Its principals decide which resources it reaches."""

    SEARCH = "search"
    """Search, and read what is found."""
    CHAT = "chat"
    """Ask questions, keep conversations, and have texts checked."""
    INGEST = "ingest"
    """Bring documents in, change and delete them."""
    ADMIN = "admin"
    """Create, change and delete collections."""
    ADMINISTRATION = "administration"
    """Administer the installation: everybody's keys and usage, the audit log. No other scope includes it,
    and it includes no other."""


OF_COLLECTIONS: Final = frozenset(Scope) - {Scope.ADMINISTRATION}
"""Scopes of what principals decide about; a key of the settings has them unless it names its own."""

_SEARCH: Final = frozenset({Scope.SEARCH})
_CHAT: Final = frozenset({Scope.CHAT})
_INGEST: Final = frozenset({Scope.INGEST})
_ADMIN: Final = frozenset({Scope.ADMIN})
_JOBS: Final = _INGEST | _ADMIN
_ADMINISTRATION: Final = frozenset({Scope.ADMINISTRATION})
_OPEN: Final[frozenset[Scope]] = frozenset()

REQUIRED: Final[Mapping[str, frozenset[Scope]]] = {
    "Search": _SEARCH,
    "QueryTables": _SEARCH,
    "Answer": _CHAT,
    "Chat": _CHAT,
    "Verify": _CHAT,
    "GetThread": _CHAT,
    "ListThreads": _CHAT,
    "UpdateThread": _CHAT,
    "DeleteThread": _CHAT,
    "RateAnswer": _CHAT,
    "GetEvidence": _CHAT,
    "ListSigningKeys": _OPEN,
    "ListModels": _CHAT,
    "GetQuotas": OF_COLLECTIONS,
    "GetCollection": OF_COLLECTIONS,
    "ListCollections": OF_COLLECTIONS,
    "GetCollectionStats": OF_COLLECTIONS,
    "GetDocument": OF_COLLECTIONS,
    "ListDocuments": OF_COLLECTIONS,
    "GetDocumentText": OF_COLLECTIONS,
    "ListChunks": OF_COLLECTIONS,
    "ListRevisions": OF_COLLECTIONS,
    "GetRevision": OF_COLLECTIONS,
    "CompareRevisions": OF_COLLECTIONS,
    "DownloadDocument": OF_COLLECTIONS,
    "GetDocumentPage": OF_COLLECTIONS,
    "IngestDocuments": _INGEST,
    "RestoreRevision": _INGEST,
    "RevertJob": _INGEST,
    "UploadDocument": _INGEST,
    "DeleteDocument": _INGEST,
    "DeleteDocuments": _INGEST,
    # Reindexing is a job too.
    "GetJob": _JOBS,
    "ListJobs": _JOBS,
    "WatchJob": _JOBS,
    "CancelJob": _JOBS,
    "RetryJob": _JOBS,
    "CreateCollection": _ADMIN,
    "UpdateCollection": _ADMIN,
    "DeleteCollection": _ADMIN,
    "ReindexCollection": _ADMIN,
    "SwapIndex": _ADMIN,
    "RevertIndex": _ADMIN,
    "ReclaimIndex": _ADMIN,
    "CreateSource": _ADMIN,
    "GetSource": _ADMIN,
    "ListSources": _ADMIN,
    "UpdateSource": _ADMIN,
    "RunSource": _ADMIN,
    "DeleteSource": _ADMIN,
    "SetLegalHold": _ADMIN,
    "ListLegalHolds": _ADMIN,
    "ListErasures": _INGEST | _ADMIN,
    "GetErasureCertificate": _INGEST | _ADMIN,
    "ListApiKeys": _ADMINISTRATION,
    "CreateApiKey": _ADMINISTRATION,
    "RevokeApiKey": _ADMINISTRATION,
    "ListAuditEntries": _ADMINISTRATION,
    "GetUsage": _ADMINISTRATION,
}
"""Scopes by RPC, of which a caller needs one; without any, it is open to everyone, also without a key. An RPC
that is not listed is refused to everyone."""
