"""The collector over gRPC."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import collector_service_pb2_grpc, document_pb2, source_pb2
from groundline_extraction.documents import FileContent, GivenDocument
from groundline_extraction.spooling import open_spool_file
from groundline_indexing.inputs import plain_values
from groundline_runtime.channels import cancelled_on_exit
from groundline_runtime.errors import CallCancelledError, FailedPreconditionError
from groundline_runtime.status import from_rpc_error, is_lost

from groundline_ingestor.domain.webhooks import Delivery
from groundline_ingestor.ports import Collected, CollectorLostError, NotDeliveredError, SeenPages

COLLECTOR_SERVICE: Final = pb.DESCRIPTOR.services_by_name["CollectorService"].full_name
COLLECT_SECONDS: Final = 4.25 * 3600
"""Maximum time of a stream, in seconds; longer than a run and a crawl may take."""
SEND_SECONDS: Final = 30.0
"""Maximum time of sending a notice, above the collector's own."""
_IN_MEMORY_BYTES: Final = 1024**2
_NO_COLLECTOR: Final = "the ingestor knows no collector"

type _Loaded = tuple[pb.FoundDocument, GivenDocument | document_pb2.IngestionFailure]


class GrpcCollector:
    """Implements Collector on groundline.v1.CollectorService."""

    def __init__(
        self, channel: grpc.aio.Channel, *, max_document_bytes: int, spool_directory: Path | None
    ) -> None:
        self._stub: collector_service_pb2_grpc.CollectorServiceAsyncStub = (
            collector_service_pb2_grpc.CollectorServiceStub(channel)
        )
        self._max_bytes = max_document_bytes
        self._spool_directory = spool_directory

    async def require_available(self, source: source_pb2.DocumentSource) -> None:
        with _translated():
            await self._stub.CheckSource(pb.CheckSourceRequest(source=source))

    async def send(self, delivery: Delivery) -> None:
        request = pb.SendNoticeRequest(
            collection_id=delivery.collection_id,
            url=delivery.url,
            secret=delivery.secret,
            notice_id=delivery.delivery_id,
            body=delivery.body,
            private_addresses=delivery.private_addresses,
        )
        with _translated():
            response = await self._stub.SendNotice(request, timeout=SEND_SECONDS)
        if response.failure:
            raise NotDeliveredError(response.failure)

    async def changes(
        self, start: pb.CollectStart, pages: SeenPages | None = None
    ) -> AsyncGenerator[Collected, None]:
        start.max_document_bytes = self._max_bytes
        async with cancelled_on_exit(self._stub.Collect(timeout=COLLECT_SECONDS)) as call:
            await _say(call, start=start)
            while (response := await _heard(call)) is not None:
                match response.WhichOneof("turn"):
                    case "recall":
                        page = await pages.recall(response.recall) if pages else None
                        await _say(call, recalled=page or pb.SeenPage())
                    case "page" if pages:
                        await pages.note(response.page)
                    case "changes":
                        found = response.changes.changes
                        yield Collected(found, partial(self._load, call, found))

    async def _load(
        self, call: Any, found: Sequence[pb.SourceChange], positions: Sequence[int]
    ) -> AsyncGenerator[_Loaded, None]:
        await _say(call, wanted=pb.WantedDocuments(positions=positions))
        for position in positions:
            async with aclosing(self._document(call)) as document:
                async for given in document:
                    yield found[position].found, given

    async def _document(
        self, call: Any
    ) -> AsyncGenerator[GivenDocument | document_pb2.IngestionFailure, None]:
        """Yield a document, whose file is closed then, or why it cannot be had."""
        first = part = await _part(call)
        content, file, size = bytearray(), None, 0
        try:
            while True:
                size += len(part.content)
                if size > self._max_bytes:
                    raise CollectorLostError
                if file is None and size > _IN_MEMORY_BYTES and not first.is_text:
                    file = open_spool_file(self._spool_directory)
                    file.write(content)
                if file is None:
                    content += part.content
                else:
                    file.write(part.content)
                if part.is_last:
                    break
                part = await _part(call)
            if part.HasField("failure"):
                yield part.failure
            else:
                held = bytes(content).decode() if first.is_text else bytes(content)
                if file is not None:
                    file.flush()
                yield GivenDocument(
                    content=held if file is None else FileContent(file, size),
                    uri=first.document.uri,
                    title=first.document.title,
                    mime_type=first.document.mime_type,
                    source_type=first.source_type,
                    metadata=plain_values(first.document.metadata),
                    allowed_principals=tuple(first.document.allowed_principals),
                )
        finally:
            if file is not None:
                file.close()


class NoCollector:
    """Implements Collector where none is known."""

    async def require_available(self, source: source_pb2.DocumentSource) -> None:
        raise FailedPreconditionError("SOURCE_NOT_AVAILABLE", _NO_COLLECTOR)

    def changes(
        self, start: pb.CollectStart, pages: SeenPages | None = None
    ) -> AsyncGenerator[Collected, None]:
        raise FailedPreconditionError("SOURCE_NOT_AVAILABLE", _NO_COLLECTOR)

    async def send(self, delivery: Delivery) -> None:
        raise NotDeliveredError(_NO_COLLECTOR)


async def _say(call: Any, **turn: Any) -> None:
    # Where the call has ended, what is heard next says why.
    with _translated(), suppress(grpc.aio.UsageError, asyncio.InvalidStateError):
        await call.write(pb.CollectRequest(**turn))


async def _heard(call: Any) -> pb.CollectResponse | None:
    """Return the collector's next turn; None after its last one."""
    with _translated():
        response = await call.read()
    return None if response is grpc.aio.EOF else response


async def _part(call: Any) -> pb.DocumentPart:
    response = await _heard(call)
    if response is None or not response.HasField("part"):
        raise CollectorLostError
    return response.part


@contextmanager
def _translated() -> Iterator[None]:
    """Raise what Collector raises."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        found = from_rpc_error(error, "the collector")
        if is_lost(error) or isinstance(found, CallCancelledError) or found.reason == "OVERLOADED":
            raise CollectorLostError from error
        raise found from error
