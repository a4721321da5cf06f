"""Work of workers: claims on items, and documents on their way into the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groundline.v1 import collection_pb2, document_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_extraction.documents import GivenDocument
from groundline_indexing.documents import HandedIn, ReadyDocument

type StoredOutcome = tuple[str, job_pb2.IngestionOutcome.ValueType]
"""A document's id, and what storing it changed."""


@dataclass(frozen=True, slots=True)
class ItemClaim:
    """A worker's right to an item; void once the item went to another worker, was cancelled or has ended."""

    job_id: str
    item_index: int
    lease_id: str


class ClaimLostError(Exception):
    """The item went to another worker, was cancelled, or has ended; nothing was changed."""

    def __init__(self, claim: ItemClaim) -> None:
        super().__init__(f"item {claim.item_index} of job {claim.job_id} is no longer this worker's")
        self.claim = claim


@dataclass(frozen=True, slots=True)
class ClientUse:
    """Use that clients make of what is scarce: of those whose work waits, the one that has lately used least
    goes first."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    passed_over: Sequence[str] = ()
    """Clients that have their share."""


NO_USE: Final = ClientUse()


@dataclass(frozen=True, slots=True)
class ReindexTarget:
    """The partition that a re-index fills, and the settings that it is built by."""

    partition_id: int
    settings: collection_pb2.CollectionSettings


@dataclass(frozen=True, slots=True)
class LeasedItem:
    """An item to work on."""

    claim: ItemClaim
    collection_id: str
    uri: str
    document_id: str
    """Document; "" for a crawl and for the run of a source."""
    attempts: int
    """Number of attempts, this one included and forgiven ones not."""
    input: Mapping[str, Any] | None = None
    """Document as handed in, without its content, which is read separately; None for a re-index."""
    target: ReindexTarget | None = None
    principals: Sequence[str] = ()
    """Principals of the caller that handed it in, by whose rights its document is written."""
    given: GivenDocument | None = None
    """Document as handed in, if it is small; otherwise it is read separately."""
    container_uri: str = ""
    """Uri of the document that it was found within, or ""."""
    is_first: bool = False
    """Whether no version of its document is stored yet that it could equal."""
    traceparent: str = ""
    """Trace of the request that began its job, or else of the run, as a W3C header; "" for neither."""

    @property
    def revision(self) -> str:
        """Revision of its document that is to be stored again; "" for none."""
        return str((self.input or {}).get("revision", ""))

    @property
    def expected_revision(self) -> str:
        """Revision that must still be in use then; "" for any."""
        return str((self.input or {}).get("expectedRevision", ""))

    @property
    def owner(self) -> str:
        """The client to charge: its first principal, or "" if it has none."""
        return next(iter(self.principals), "")


@dataclass(frozen=True, slots=True)
class OrderedCrawl:
    """A crawl to do; a dry run ingests nothing."""

    request: pb.WebCrawl
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an item, for those who watch."""

    claim: ItemClaim
    state: document_pb2.IngestionState.ValueType
    chunks: job_pb2.ChunkCounts


@dataclass(frozen=True, slots=True)
class NewVersion(ReadyDocument):
    """A document ready to be stored, by the right of a claim."""

    claim: ItemClaim | None = None
    principals: Sequence[str] = ()
    """Principals of the caller that handed it in: a document that none of them may read is not replaced."""
    members: Sequence[HandedIn] | None = None
    """All files found within it, a container before its own; None if none were looked for."""
    is_restored: bool = False
    """Whether it is a revision that is stored again, of which nothing was handed in."""
    expected_revision: str = ""
    """Revision that it is to replace; "" for any."""
