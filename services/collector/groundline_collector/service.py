"""Runs of sources, in which the collector and the ingestor take turns."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final

from google.protobuf.message import Message
from groundline.v1 import collector_service_pb2 as pb
from groundline_extraction.documents import IngestionError
from groundline_runtime.errors import FieldViolation, InvalidArgumentError, ResourceExhaustedError
from groundline_validation import validate

from groundline_collector.changes import Change, Found, message_of, not_had
from groundline_collector.ports import RunThread, Sources

PART_BYTES: Final = 1024**2
MAX_PAGE_BYTES: Final = 8 * 1024**2
"""Largest message about a page; one with more links is not remembered, and read again the next time."""
RETRY_SECONDS: Final = 10.0


class Turns:
    """Both sides of one stream."""

    def __init__(
        self,
        requests: AsyncIterator[pb.CollectRequest],
        send: Callable[[pb.CollectResponse], Awaitable[None]],
    ) -> None:
        self._requests = requests
        self._send = send

    async def say(self, **turn: Message | str) -> None:
        """Take the service's turn."""
        await self._send(pb.CollectResponse(**turn))  # type: ignore[arg-type]

    async def next(self, turn: str) -> Any:
        """Return what the client says. Raises InvalidArgumentError unless it is the turn that is due."""
        request = await anext(self._requests, pb.CollectRequest())
        validate(request)
        if request.WhichOneof("turn") != turn:
            raise InvalidArgumentError([FieldViolation(turn, "is the turn that is due")])
        return getattr(request, turn)

    async def recall(self, url: str) -> pb.SeenPage | None:
        """Return the last seen state of an address; see SeenPages."""
        await self.say(recall=url)
        page = await self.next("recalled")
        return page if page.url else None

    async def note(self, page: pb.SeenPage) -> None:
        """Record the state of a page; see SeenPages."""
        if page.ByteSize() <= MAX_PAGE_BYTES:
            await self.say(page=page)


class Collecting:
    """Reads sources."""

    def __init__(self, sources: Sources, *, max_runs: int) -> None:
        self._sources = sources
        self._max_runs = max_runs
        self._runs = 0

    async def collect(self, turns: Turns) -> None:
        """Read a source to its end. Raises what Sources raise, InvalidArgumentError, ResourceExhaustedError
        (OVERLOADED)."""
        start = await turns.next("start")
        with self._counted():
            async with aclosing(self._sources.read(start, turns)) as batches:
                async for batch, thread in batches:
                    changes = [message_of(change) for change in batch]
                    await turns.say(changes=pb.SourceChanges(changes=changes))
                    wanted = await turns.next("wanted")
                    for found in _wanted(batch, wanted.positions):
                        await _send(turns, thread, found, start.max_document_bytes)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._runs >= self._max_runs:
            message = f"there are {self._max_runs} runs already"
            raise ResourceExhaustedError("OVERLOADED", message, retry_after_seconds=RETRY_SECONDS)
        self._runs += 1
        try:
            yield
        finally:
            self._runs -= 1


def _wanted(batch: Sequence[Change], positions: Sequence[int]) -> list[Found]:
    """Return the documents at these positions. Raises InvalidArgumentError."""
    chosen = [batch[position] for position in positions if position < len(batch)]
    found = [change for change in chosen if isinstance(change, Found)]
    if len(found) < len(positions):
        raise InvalidArgumentError(
            [FieldViolation("wanted.positions", "must be of documents that were found")]
        )
    return found


async def _send(turns: Turns, thread: RunThread, found: Found, max_bytes: int) -> None:
    """Send a document part by part, or why it cannot be had."""
    try:
        document = await thread.call(found.load)
        part = document.first_part()
        part.document.allowed_principals.extend(found.allowed_principals or ())
        parts = _parts(document.content, max_bytes)
        while content := await thread.call(next, parts, b""):
            part.content = content
            await turns.say(part=part)
            part = pb.DocumentPart()
    except IngestionError as error:
        part = pb.DocumentPart(failure=error.failure)
    part.is_last = True
    await turns.say(part=part)


def _parts(content: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield the content in parts of bounded size, none of them empty. Raises IngestionError
    (DOCUMENT_TOO_LARGE)."""
    size = 0
    for piece in content:
        size += len(piece)
        if size > max_bytes:
            raise not_had("DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
        for start in range(0, len(piece), PART_BYTES):
            yield piece[start : start + PART_BYTES]
