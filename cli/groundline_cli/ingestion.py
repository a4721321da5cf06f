"""Ingestion of files and other documents into a collection."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from groundline_client import ApiError, AsyncClient, JsonObject, has_ended
from groundline_client.models import (
    ChunkCounts,
    Document,
    ErrorReason,
    IngestDocumentsResponse,
    IngestionFailure,
    IngestionItem,
    IngestionJob,
    IngestionOutcome,
    IngestionState,
    Usage,
)
from groundline_language import guess_language

from groundline_cli.files import (
    PLAIN,
    Description,
    Failure,
    SourceFile,
    UnreadableFileError,
    is_excluded,
    scan,
)

# Small batches make progress visible; the bytes stay below the gateway's limit of 4 MiB a request.
_BATCH_DOCUMENTS: Final = 16
_BATCH_BYTES: Final = 2 << 20

# A larger file is not part of a batch: it is sent as it is, without being held in memory anywhere; except
# JSON, which may be many objects.
_LARGE_BYTES: Final = 1 << 20

_INVALID_ARGUMENT: Final = 3
_ALREADY_EXISTS: Final = 6
_RESOURCE_EXHAUSTED: Final = 8
_OUT_OF_RANGE: Final = 11
_READ_FOR_LANGUAGE: Final = 20
"""Files whose beginnings tell the language, about."""
_DOCUMENT_FIELD: Final = re.compile(r"documents\[(\d{1,9})\]")


@dataclass(frozen=True, slots=True)
class UploadProgress:
    """Progress of an ingestion."""

    sent: int
    """Documents handed in."""
    documents: int
    """Documents that ended, including failed ones."""
    total: int
    chunks: int
    """Chunks stored for documents that are new or changed."""


@dataclass(slots=True)
class IngestReport:
    """Outcome of an ingestion."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    chunks: int = 0
    """Chunks stored for documents that are new or changed."""
    failures: list[Failure] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Entries of directories that were passed over, by why."""
    unsupported: list[str] = field(default_factory=list)
    """Uris of files of an unsupported type."""
    unread: list[Failure] = field(default_factory=list)
    """Attachments and archive members that cannot be read, with the reasons."""
    jobs: list[str] = field(default_factory=list)
    """Ids of the jobs that the documents were handed in with."""
    broke_off: bool = False
    """Whether a crawl ended early."""
    guessed_language: str = ""
    """Language that a collection was created for; "" for English, or if it was there."""

    @property
    def ended(self) -> int:
        """Documents that are done, skipped or failed."""
        return self.created + self.updated + self.unchanged + len(self.unread) + len(self.failures)


type OnProgress = Callable[[UploadProgress], None]


async def has_collections(client: AsyncClient) -> bool:
    """Tell whether there is any collection that the caller may read."""
    async with aclosing(client.list_collections()) as collections:
        async for _ in collections:
            return True
    return False


async def ensure_collection(
    client: AsyncClient, collection: str, *, name: str = "", settings: JsonObject | None = None
) -> bool:
    """Create a collection unless it exists; return whether it was created."""
    try:
        await client.get_collection(collection)
    except ApiError as error:
        if error.http_status != 404:
            raise
    else:
        return False
    try:
        await client.create_collection(collection, name=name, settings=settings)
    except ApiError as error:
        if error.code != _ALREADY_EXISTS:
            raise
        return False
    return True


async def ingest_paths(
    client: AsyncClient,
    paths: Iterable[Path],
    collection: str,
    *,
    exclude: Sequence[str] = (),
    given: Description = PLAIN,
    create: bool = True,
    on_progress: OnProgress | None = None,
    wait: bool = True,
) -> IngestReport:
    """Ingest the files that `paths` name or hold, except excluded ones; see `groundline_cli.files.scan`.

    `given` describes all of them. Creates the collection if it is missing, `create` is set and there is a
    file to ingest, for the language of most texts among them. Files are read one batch at a time. A file
    that cannot be ingested is in the report; an error that concerns all of them raises GatewayError.
    """
    found = scan(paths, exclude, given)
    report = IngestReport(failures=found.failures, skipped=found.skipped, unsupported=found.unsupported)
    if not found.files:
        return report
    if create:
        language = await asyncio.to_thread(_language_of, found.files)
        settings: JsonObject | None = {"lexical": {"language": language}} if language else None
        if await ensure_collection(client, collection, settings=settings):
            report.guessed_language = language
    total = len(found.files) + report.ended

    large = [file for file in found.files if file.form != "json" and file.size > _LARGE_BYTES]
    return await ingest_documents(
        client,
        _documents([file for file in found.files if file not in large], report.failures),
        collection,
        total=total,
        large=large,
        report=report,
        on_progress=on_progress,
        wait=wait,
    )


def _language_of(files: Sequence[SourceFile]) -> str:
    """Return the language of most texts; "" for English, which is the default, and where none has most."""
    texts = filter(None, (file.beginning() for file in files[:: max(1, len(files) // _READ_FOR_LANGUAGE)]))
    spoken = Counter(filter(None, map(guess_language, texts)))
    for language, count in spoken.most_common(1):
        if language != "english" and count * 2 > spoken.total():
            return language
    return ""


@dataclass(slots=True)
class Estimate:
    """Effects that an ingestion would have."""

    documents: int = 0
    chunks: int = 0
    prompt_tokens: int = 0
    """Prompt tokens of contexts that a language model writes, cached ones included."""
    cached_tokens: int = 0
    output_tokens: int = 0
    failures: list[Failure] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    unsupported: list[str] = field(default_factory=list)


async def estimate_paths(
    client: AsyncClient,
    paths: Iterable[Path],
    collection: str,
    *,
    exclude: Sequence[str] = (),
    given: Description = PLAIN,
) -> Estimate:
    """Estimate what `ingest_paths` would do to an existing collection; nothing is stored. Raises
    GatewayError."""
    found = scan(paths, exclude, given)
    estimate = Estimate(failures=found.failures, skipped=found.skipped, unsupported=found.unsupported)
    for batch in _batches(_documents(found.files, estimate.failures), _BATCH_DOCUMENTS):
        response = await _hand_in(client, collection, batch, estimate.failures, dry_run=True)
        for item in response.items if response else ():
            if item.failure:
                estimate.failures.append(Failure(item.uri, _reason(item.failure)))
            else:
                estimate.documents += 1
                estimate.chunks += (item.chunks or ChunkCounts()).parsed
                usage = item.usage or Usage()
                estimate.prompt_tokens += usage.prompt_tokens
                estimate.cached_tokens += usage.cached_tokens
                estimate.output_tokens += usage.output_tokens
    return estimate


def _documents(files: Iterable[SourceFile], failures: list[Failure]) -> Iterator[JsonObject]:
    """Yield documents one at a time; files that cannot be read are added to `failures`."""
    for file in files:
        try:
            yield from file.documents()
        except UnreadableFileError as error:
            failures.append(Failure(file.uri, str(error)))


async def ingest_documents(
    client: AsyncClient,
    documents: Iterable[JsonObject],
    collection: str,
    *,
    total: int,
    large: Sequence[SourceFile] = (),
    report: IngestReport | None = None,
    on_progress: OnProgress | None = None,
    batch_documents: int = _BATCH_DOCUMENTS,
    wait: bool = True,
) -> IngestReport:
    """Ingest DocumentInputs, a batch at a time, into an existing collection; see `ingest_paths`.

    The `large` files are sent after them, each in a request of its own. `total` counts all for the progress;
    `report` is one to continue. Without `wait` they are only handed in, and the report names the jobs.
    """
    upload = _Upload(client, collection, report or IngestReport(), total, on_progress)
    for batch in _batches(documents, batch_documents):
        await upload.send(batch)
    for file in large:
        await upload.send_file(file)
    if wait:
        await upload.finish()
    return upload.report


async def crawl_site(
    client: AsyncClient,
    crawl: JsonObject,
    collection: str,
    *,
    create: bool = True,
    on_progress: OnProgress | None = None,
    wait: bool = True,
) -> IngestReport:
    """Ingest the pages of a web site, a WebCrawl; see `ingest_paths`.

    A page that cannot be fetched is in the report, and so is the crawl if it ended early.
    """
    if create:
        await ensure_collection(client, collection)
    upload = _Upload(client, collection, IngestReport(), 0, on_progress)
    await upload.begin(crawl)
    if wait:
        await upload.finish()
    return upload.report


async def vanished_documents(
    client: AsyncClient, directory: Path, collection: str, *, exclude: Sequence[str] = ()
) -> list[Document]:
    """Return the collection's documents of source type file that a directory no longer holds.

    An empty directory gives none: it is more likely to be the wrong one. A file that exists but cannot be
    read keeps its document, and so does an excluded one. Documents within other documents go with them.
    Raises GatewayError.
    """
    found = scan([directory], exclude)
    if not found.files:
        return []
    kept = {file.uri for file in found.files} | {failure.name for failure in found.failures}
    files = client.list_documents(collection, filter={"$source_type": "file"})
    try:
        return [
            document
            async for document in files
            if not document.container_uri
            and document.uri not in kept
            and not document.uri.startswith(tuple(found.unseen))
            and not is_excluded(document.uri, exclude)
        ]
    except ApiError as error:
        if error.http_status != 404:
            raise
        return []


class _Upload:
    def __init__(
        self,
        client: AsyncClient,
        collection: str,
        report: IngestReport,
        total: int,
        on_progress: OnProgress | None,
    ) -> None:
        self.report = report
        self._client = client
        self._collection = collection
        self._total = total
        self._on_progress = on_progress
        self._sent = 0
        self._ended: set[str] = set()
        self._handed: dict[str, int] = {}
        """Number of documents that were handed in, by job."""
        self._found: dict[str, int] = {}
        """Number of documents that a job found itself: pages of a crawl, attachments, archive members."""

    async def send(self, batch: list[JsonObject]) -> None:
        failed = len(self.report.failures)
        if response := await _hand_in(self._client, self._collection, batch, self.report.failures):
            self._take(response.job, response.items, len(batch) - (len(self.report.failures) - failed))
        self._sent += len(batch) - (len(self.report.failures) - failed)
        # A file that holds objects is several documents.
        self._total = max(self._total, self._sent + len(self.report.failures))
        self._show(0, 0)

    async def begin(self, crawl: JsonObject) -> None:
        """Start a crawl."""
        response = await self._client.ingest_documents(self._collection, crawl=crawl)
        self._take(response.job, response.items, 0)

    async def send_file(self, file: SourceFile) -> None:
        """Send a file that is too large for a batch."""
        try:
            described = file.described()
            response = await self._client.upload_document(
                self._collection,
                file.path,
                uri=file.uri,
                title=described.title,
                mime_type=described.mime_type,
                metadata=described.metadata or None,
                allowed_principals=described.allowed_principals,
            )
        except UnreadableFileError as error:
            self.report.failures.append(Failure(file.uri, str(error)))
        except OSError as error:
            self.report.failures.append(Failure(file.uri, error.strerror or str(error)))
        except ApiError as error:
            if error.code not in (_INVALID_ARGUMENT, _OUT_OF_RANGE):
                raise
            self.report.failures.append(Failure(file.uri, error.message))
        else:
            self._take(response.job, [response.item] if response.item else [], 1)
            self._sent += 1
        self._show(0, 0)

    async def finish(self) -> None:
        """Wait until the jobs have ended, in the order of hand-in."""
        for job_id in self.report.jobs:
            if job_id in self._ended:
                continue
            async with aclosing(self._client.watch_job(job_id)) as changes:
                async for change in changes:
                    job = change.job or IngestionJob()
                    self._found[job_id] = max(job.item_count - self._handed[job_id], 0)
                    ended = job.done_count + job.failed_count + job.cancelled_count
                    self._show(ended, (job.chunks or ChunkCounts()).stored)
            async for item in self._client.list_job_items(job_id):
                self._record(item)
            self._show(0, 0)

    def _take(self, job: IngestionJob | None, items: Sequence[IngestionItem], handed_in: int) -> None:
        assert job is not None, "the client refuses an answer without one"
        self.report.jobs.append(job.job_id)
        self._handed[job.job_id] = handed_in
        if has_ended(job):
            self._ended.add(job.job_id)
            self._found[job.job_id] = max(job.item_count - handed_in, 0)
            for item in items:
                self._record(item)

    def _record(self, item: IngestionItem) -> None:
        if item.is_crawl and item.state == IngestionState.DONE:
            return
        match item.outcome:
            case IngestionOutcome.CREATED:
                self.report.created += 1
            case IngestionOutcome.UPDATED:
                self.report.updated += 1
            case IngestionOutcome.UNCHANGED:
                self.report.unchanged += 1
                return
            case IngestionOutcome.SKIPPED:
                self.report.unread.append(Failure(item.uri, _reason(item.failure or IngestionFailure())))
                return
            case _:
                self.report.failures.append(Failure(item.uri, _reason(item.failure or IngestionFailure())))
                self.report.broke_off |= item.is_crawl
                return
        self.report.chunks += (item.chunks or ChunkCounts()).stored

    def _show(self, documents: int, chunks: int) -> None:
        if self._on_progress:
            ended = self.report.ended + documents
            total = self._total + sum(self._found.values())
            self._on_progress(UploadProgress(self._sent, ended, total, self.report.chunks + chunks))


async def _hand_in(
    client: AsyncClient,
    collection: str,
    batch: list[JsonObject],
    failures: list[Failure],
    *,
    dry_run: bool = False,
) -> IngestDocumentsResponse | None:
    """Send documents; refused ones are added to `failures`. None if all were refused."""
    while batch:
        try:
            return await client.ingest_documents(collection, batch, dry_run=dry_run)
        except ApiError as error:
            # One wrong document makes the whole request wrong: what is right is sent again without it.
            refused = _refused(error, len(batch))
            if not refused:
                raise
            failures += [Failure(batch[i]["uri"], why) for i, why in refused.items()]
            batch = [document for i, document in enumerate(batch) if i not in refused]
    return None


def _batches(documents: Iterable[JsonObject], most: int) -> Iterator[list[JsonObject]]:
    batch: list[JsonObject] = []
    size = 0
    for document in documents:
        length = _size(document)
        if batch and (len(batch) == most or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += length
    if batch:
        yield batch


def _reason(failure: IngestionFailure) -> str:
    if failure.message or failure.reason == ErrorReason.UNSPECIFIED:
        return failure.message or "cancelled"
    return failure.reason


def _size(document: JsonObject) -> int:
    """Estimate the bytes that a document takes in a request."""
    content = document.get("text", document.get("data"))
    return len((content if isinstance(content, str) else json.dumps(document.get("object"))).encode())


def _refused(error: ApiError, count: int) -> dict[int, str]:
    """Return why documents of a request were refused, by index; empty if the error was not about
    documents."""
    refused: dict[int, list[str]] = {}
    for violation in error.violations:
        match = _DOCUMENT_FIELD.match(violation.field)
        if match is None or int(match[1]) >= count:
            return {}
        name = violation.field[match.end() :].removeprefix(".")
        text = f"{name}: {violation.description}" if name else violation.description
        refused.setdefault(int(match[1]), []).append(text)
    too_large = error.code == _RESOURCE_EXHAUSTED and error.retry_after_seconds is None
    if not refused and count == 1 and (error.code == _INVALID_ARGUMENT or too_large) and not error.violations:
        return {0: error.message}
    return {position: "; ".join(texts) for position, texts in refused.items()}
