"""Pictures of the pages of documents."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import BinaryIO, Final

from groundline.v1 import document_pb2
from groundline_extraction.documents import FileContent
from groundline_extraction.formats import drawer_of
from groundline_extraction.readers.common import Hints, ReadError
from groundline_extraction.sandbox import Drawer, Sandbox
from groundline_runtime.errors import FailedPreconditionError, NotFoundError, ResourceExhaustedError
from groundline_runtime.turns import ClientTurns

from groundline_ingestor.service.spooled import spooled

DRAWN_AT_ONCE: Final = 2
"""Maximum pictures that are drawn at a time; one client may have all but one."""
MAX_WAITING: Final = 32
"""Maximum pictures that are waited for at a time."""
_RETRY_SECONDS: Final = 2.0
_PART_BYTES: Final = 1024**2


class PagePictures:
    """Drawer of pages, in the confined processes that read files."""

    def __init__(self, sandbox: Sandbox, open_file: Callable[[], BinaryIO]) -> None:
        """Take the processes, and the opener of files that originals wait in."""
        self._sandbox = sandbox
        self._open_file = open_file
        self._turns = ClientTurns(DRAWN_AT_ONCE)
        self._waiting = 0

    async def draw(
        self, document: document_pb2.Document, original: AsyncGenerator[bytes], hints: Hints, *, client: str
    ) -> Sequence[bytes]:
        """Return the picture of a page as PNG, in parts; `client` is charged for it.

        Raises FailedPreconditionError (NO_PAGE_PICTURES, and the readers' reasons), NotFoundError
        (PAGE_NOT_FOUND), ResourceExhaustedError (OVERLOADED), UnavailableError (DISK_FULL).
        """
        drawer = drawer_of(document.mime_type)
        if drawer is None:
            message = f"pages of {document.mime_type} are not drawn; those of PDF files and images are"
            raise FailedPreconditionError("NO_PAGE_PICTURES", message)
        with self._counted():
            async with self._turns.turn(client):
                with spooled(self._open_file) as file:
                    size = 0
                    async with aclosing(original):
                        async for part in original:
                            size += file.write(part)
                    content = FileContent(file, size)
                    drawing = asyncio.create_task(
                        asyncio.to_thread(self._drawn, drawer, content, hints, client)
                    )
                    try:
                        return await asyncio.shield(drawing)
                    except asyncio.CancelledError:
                        # The thread goes on, and with it the turn and the file.
                        await asyncio.wait([drawing])
                        raise

    def _drawn(self, drawer: Drawer, content: FileContent, hints: Hints, client: str) -> Sequence[bytes]:
        try:
            pieces = self._sandbox.pieces(drawer, content.parts(_PART_BYTES), hints, client=client)
            return [part.data for piece in pieces for part in piece.members]
        except ReadError as error:
            if error.reason == "PAGE_NOT_FOUND":
                raise NotFoundError(error.reason, error.message) from None
            raise FailedPreconditionError(error.reason, error.message) from None

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._waiting >= MAX_WAITING:
            message = f"{MAX_WAITING} pictures of pages are waited for already"
            raise ResourceExhaustedError("OVERLOADED", message, retry_after_seconds=_RETRY_SECONDS)
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
