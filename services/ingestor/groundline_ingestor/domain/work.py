"""What workers hold: claims on items, and documents on their way into the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundline.v1 import collection_pb2, document_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb

from groundline_ingestor.domain.documents import DocumentVersion, GivenDocument, Member
from groundline_ingestor.domain.texts import PreparedChunk, Series, TextSegment, Vectors

__all__ = ["ItemClaim", "LeasedItem", "NewVersion", "OrderedCrawl", "Progress", "ReindexTarget"]


@dataclass(frozen=True)
class ItemClaim:
    """A worker's right to an item; void once the item went to another worker, was cancelled or has ended."""

    job_id: str
    item_index: int
    lease_id: str


@dataclass(frozen=True)
class ReindexTarget:
    """The partition that a re-index fills, and the settings that it is built by."""

    partition_id: int
    settings: collection_pb2.CollectionSettings


@dataclass(frozen=True)
class LeasedItem:
    """An item to work on."""

    claim: ItemClaim
    collection_id: str
    uri: str
    document_id: str
    """Empty for a crawl and for the run of a source."""
    attempts: int
    """This one included; forgiven ones not."""
    input: Mapping[str, Any] | None = None
    """What was handed in, without its content, which is read by itself; None for a re-index."""
    target: ReindexTarget | None = None
    principals: Sequence[str] = ()
    """Of the caller that handed it in, by whose rights its document is written."""
    given: GivenDocument | None = None
    """What was handed in, where it is small; otherwise it is read by itself."""
    container_uri: str = ""
    """Of the document that it was found within."""
    is_first: bool = False
    """No version of its document is stored yet that it could be the same as."""

    @property
    def owner(self) -> str:
        """Whose work it is: the first principal, empty where there is none."""
        return next(iter(self.principals), "")


@dataclass(frozen=True)
class OrderedCrawl:
    """A crawl to do; a dry run takes nothing in."""

    request: pb.WebCrawl
    is_dry_run: bool = False


@dataclass(frozen=True)
class Progress:
    """How far an item has come, for those who watch."""

    claim: ItemClaim
    state: document_pb2.IngestionState.ValueType
    chunks: job_pb2.ChunkCounts


@dataclass(frozen=True)
class NewVersion:
    """A document ready to be stored, by the right of a claim; each chunk has a vector."""

    version: DocumentVersion
    chunks: Series[PreparedChunk]
    vectors: Series[Vectors]
    segments: Series[TextSegment]
    token_count: int = 0
    claim: ItemClaim | None = None
    principals: Sequence[str] = ()
    """Of the caller that handed it in: a document that none of them may read is not replaced."""
    members: Sequence[Member] | None = None
    """All that was found within it, a container before what is in it; None where nothing was looked for."""
