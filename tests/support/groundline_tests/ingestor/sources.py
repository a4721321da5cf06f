"""Requests about the sources of a collection, and servers that answer for them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from groundline.v1 import error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb

from groundline_tests.http_server import Answering, listening

OWNER, STRANGER = (("x-groundline-principals", "user:ann"),), (("x-groundline-principals", "user:bob"),)


async def create(stub: Any, collection_id: str, source: dict[str, Any], metadata: Any = OWNER) -> str:
    """Id of the source."""
    request = {"collectionId": collection_id, "source": {"name": "handbook", **source}}
    answer = await stub.CreateSource(
        json_format.ParseDict(request, pb.CreateSourceRequest()), metadata=metadata
    )
    return str(answer.source.source_id)


async def get(stub: Any, collection_id: str, source_id: str) -> Any:
    request = pb.GetSourceRequest(collection_id=collection_id, source_id=source_id)
    return (await stub.GetSource(request, metadata=OWNER)).source


async def first_run(stub: Any, collection_id: str, source_id: str) -> dict[str, str]:
    """Return the outcome of each document, when the run that begins by itself has ended."""
    return await ended(stub, await job_after(stub, collection_id, source_id, ""))


async def followed(stub: Any, collection_id: str, folder: Path, *names: str) -> str:
    """Write the files, and return the id of a source that has read them."""
    for name in names:
        (folder / name).write_text(f"# {name}\n\nThe text of {name}.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    await first_run(stub, collection_id, source_id)
    return source_id


async def job_after(stub: Any, collection_id: str, source_id: str, earlier: str) -> str:
    """Return the id of the job of the run that follows an earlier one."""
    async with asyncio.timeout(60):
        while True:
            job_id = (await get(stub, collection_id, source_id)).last_job.job_id
            if job_id not in ("", earlier):  # one that found nothing goes when the next begins
                return str(job_id)
            await asyncio.sleep(0.05)


async def run(stub: Any, collection_id: str, source_id: str, *, full: bool = False) -> dict[str, str]:
    request = pb.RunSourceRequest(collection_id=collection_id, source_id=source_id, full=full)
    return await ended(stub, (await stub.RunSource(request, metadata=OWNER)).job.job_id)


async def preview(stub: Any, collection_id: str, source_id: str) -> dict[str, str]:
    """Return what a run would do, by a dry one."""
    request = pb.RunSourceRequest(collection_id=collection_id, source_id=source_id, dry_run=True)
    job = (await stub.RunSource(request, metadata=OWNER)).job
    assert job.is_dry_run
    return await ended(stub, job.job_id)


async def ended(stub: Any, job_id: str) -> dict[str, str]:
    """Return the outcomes or failures by uri, of all but the run itself if that is done."""
    async with asyncio.timeout(60):
        async for _ in stub.WatchJob(pb.WatchJobRequest(job_id=job_id), metadata=OWNER):
            pass
    found = await stub.GetJob(pb.GetJobRequest(job_id=job_id, page_size=1000), metadata=OWNER)
    return {
        item.uri: error_pb2.ErrorReason.Name(item.failure.reason)
        if item.HasField("failure")
        else job_pb2.IngestionOutcome.Name(item.outcome).removeprefix("INGESTION_OUTCOME_")
        for item in found.items
        if not item.is_crawl or item.HasField("failure")
    }


async def documents(stub: Any, collection_id: str) -> dict[str, Any]:
    """Return documents by uri."""
    answer = await stub.ListDocuments(pb.ListDocumentsRequest(collection_id=collection_id), metadata=OWNER)
    return {one.uri: one for one in answer.documents}


async def text_of(stub: Any, document: Any) -> str:
    request = pb.GetDocumentTextRequest(
        collection_id=document.collection_id, document_id=document.document_id
    )
    return str((await stub.GetDocumentText(request, metadata=OWNER)).text)


def without_end(start: bytes, line: bytes) -> Iterator[bytes]:
    """Yield what a server says that is to be left before it comes to its end, at 64 MiB."""
    yield start
    for _ in range(1024):
        yield line * (65536 // len(line))


@contextmanager
def answering(parts: Callable[[], Iterator[bytes]], **headers: str) -> Iterator[str]:
    """Answer every request with the same."""

    class Handler(Answering):
        def do_GET(self) -> None:  # noqa: N802
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            with suppress(ConnectionError):
                for part in parts():
                    self.wfile.write(part)

    with listening(Handler) as url:
        yield url


async def why_it_failed(stub: Any, collection_id: str, source: dict[str, Any]) -> str:
    """Return the message of a run that its server's answers end."""
    source_id = await create(stub, collection_id, source)
    assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
    job = (await get(stub, collection_id, source_id)).last_job
    [item] = (await stub.GetJob(pb.GetJobRequest(job_id=job.job_id), metadata=OWNER)).items
    return str(item.failure.message)


def mail(name: str, text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "Änne <ann@example.com>", "bob@example.com"
    message["Subject"], message["Message-ID"] = f"About {name}", f"<{name}@example.com>"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0100"
    message.set_content(text)
    return message
