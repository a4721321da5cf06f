"""Jobs, their items, and the claims that workers have on them."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from groundline_ingestor.domain.collections import Partition
from groundline_ingestor.domain.documents import DocumentVersion, IngestionFailure, IngestionState
from groundline_ingestor.domain.texts import Chunk, Series, Stretch, Vectors

__all__ = [
    "ChunkCounts",
    "Claim",
    "IngestionOutcome",
    "Item",
    "Job",
    "JobKind",
    "JobState",
    "LeasedItem",
    "NewVersion",
    "Progress",
    "Usage",
]


class IngestionOutcome(enum.StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class JobState(enum.StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class ChunkCounts:
    """Chunks that passed each stage."""

    parsed: int = 0
    contextualized: int = 0
    embedded: int = 0
    stored: int = 0

    def __add__(self, other: "ChunkCounts") -> "ChunkCounts":
        return ChunkCounts(
            self.parsed + other.parsed,
            self.contextualized + other.contextualized,
            self.embedded + other.embedded,
            self.stored + other.stored,
        )


@dataclass(frozen=True)
class Usage:
    """Tokens that contextualization read (of them from a cache) and wrote."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )


class JobKind(enum.StrEnum):
    INGEST = "ingest"
    REINDEX = "reindex"


@dataclass(frozen=True)
class Item:
    """One document of a job. `document_id` is None until it is known."""

    index: int
    uri: str
    document_id: str | None
    state: IngestionState
    outcome: IngestionOutcome | None = None
    failure: IngestionFailure | None = None
    attempts: int = 1
    chunks: ChunkCounts = ChunkCounts()
    usage: Usage = Usage()
    is_crawl: bool = False

    @property
    def has_ended(self) -> bool:
        return self.state in (IngestionState.DONE, IngestionState.FAILED, IngestionState.CANCELLED)


@dataclass(frozen=True)
class Job:
    """Documents on their way into a collection."""

    job_id: str
    collection_id: str
    state: JobState
    create_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    item_count: int = 0
    done_count: int = 0
    unchanged_count: int = 0
    failed_count: int = 0
    cancelled_count: int = 0
    chunks: ChunkCounts = ChunkCounts()
    usage: Usage = Usage()

    @property
    def has_ended(self) -> bool:
        return self.state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True)
class Claim:
    """A worker's right to an item; void once the lease has gone to another or the item was cancelled."""

    job_id: str
    item_index: int
    lease_id: str


@dataclass(frozen=True)
class LeasedItem:
    """An item to work on. `input` lacks its content, which is read by itself; None for an item of a
    re-index, whose `partition` is where it goes and whose `settings` are those it is built by."""

    claim: Claim
    kind: JobKind
    collection_id: str
    uri: str
    document_id: str | None
    attempts: int
    """This one included; those before the last retry by a person not counted."""
    input: Mapping[str, Any] | None
    partition: Partition | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Progress:
    """How far an item has come, for those who watch."""

    claim: Claim
    state: IngestionState
    chunks: ChunkCounts


@dataclass(frozen=True)
class NewVersion:
    """A document ready to be stored, by the right of a claim; each chunk has a vector."""

    version: DocumentVersion
    chunks: Series[Chunk]
    vectors: Series[Vectors]
    stretches: Series[Stretch]
    token_count: int = 0
    claim: Claim | None = None
