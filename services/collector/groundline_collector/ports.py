"""Ports of runs."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import source_pb2

from groundline_collector.changes import Change


class SeenPages(Protocol):
    """Memory of what earlier runs of a web source saw."""

    async def recall(self, url: str) -> pb.SeenPage | None:
        """Return the last seen state of an address."""

    async def note(self, page: pb.SeenPage) -> None:
        """Record the state of a page."""


class RunThread(Protocol):
    """Thread of one run, in which its connector blocks."""

    async def call[**P, T](self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return the result of work that is done in the thread."""


class Sources(Protocol):
    """Reader of sources of every kind."""

    def require_available(self, source: source_pb2.DocumentSource) -> None:
        """Raise FailedPreconditionError (SOURCE_NOT_AVAILABLE) unless the source's collection has the
        directory and the secrets that the source names."""

    def read(
        self, start: pb.CollectStart, pages: SeenPages
    ) -> AsyncGenerator[tuple[Sequence[Change], RunThread], None]:
        """Yield the documents, or the changes since the cursor, with the thread in which they are loaded.
        Close it to end the run and its connections.

        Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
        SOURCE_NOT_AVAILABLE, ADDRESS_NOT_ALLOWED).
        """


class UndeliveredError(Exception):
    """A notice did not arrive; its text says why, without URL and secret."""
