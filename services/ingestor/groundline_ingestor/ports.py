"""Port to the collector, which opens what sources and webhooks name."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from groundline.v1 import collector_service_pb2, document_pb2, source_pb2
from groundline_extraction.documents import GivenDocument
from groundline_runtime.errors import UnavailableError

from groundline_ingestor.domain.webhooks import Delivery


class CollectorLostError(UnavailableError):
    """The collector cannot be reached, or is too busy: any run would have met it, and is tried again."""

    def __init__(self) -> None:
        super().__init__("SERVICE_UNAVAILABLE", "the collector is not available", retry_after_seconds=5)


@dataclass(frozen=True, slots=True)
class Collected:
    """Changes of a source, 200 at most."""

    changes: Sequence[collector_service_pb2.SourceChange]
    load: Callable[
        [Sequence[int]],
        AsyncGenerator[
            tuple[collector_service_pb2.FoundDocument, GivenDocument | document_pb2.IngestionFailure], None
        ],
    ]
    """Yields the documents of changes by their positions, or why they cannot be had. A file is open until
    the next one is asked for. To be called once, and read to its end before the next changes."""


class Collector(Protocol):
    """Reads what is behind sources of every kind, and tells webhooks.

    Any method raises CollectorLostError.
    """

    async def require_available(self, source: source_pb2.DocumentSource) -> None:
        """Raise FailedPreconditionError (SOURCE_NOT_AVAILABLE) where a directory or secret that the source
        names is not for its collection."""

    def changes(
        self, start: collector_service_pb2.CollectStart, pages: "SeenPages | None" = None
    ) -> AsyncGenerator[Collected, None]:
        """Yield the documents, or the changes since the cursor. Close it to stop early.

        Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
        SOURCE_NOT_AVAILABLE, ADDRESS_NOT_ALLOWED).
        """

    async def send(self, delivery: Delivery) -> None:
        """Send a notice once. Raises NotDeliveredError."""


class NotDeliveredError(Exception):
    """A notice did not arrive; its text says why, without URL and secret."""


class SeenPages(Protocol):
    """Pages that runs of a source saw. Any method raises UnavailableError while the store is down."""

    async def recall(self, url: str) -> collector_service_pb2.SeenPage | None:
        """Return what was seen at an address."""

    async def note(self, page: collector_service_pb2.SeenPage) -> None:
        """Keep what was seen now. Does nothing if the source is gone."""

    async def forget(self, *, unseen_seconds: float) -> None:
        """Drop what was not noted within this time."""
