"""The connector of each kind of source."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

from groundline.v1 import source_pb2
from groundline_runtime.errors import UnimplementedError

from groundline_ingestor.adapters.addresses import pinned_pool
from groundline_ingestor.adapters.extraction.sandbox import Sandbox
from groundline_ingestor.adapters.sources.common import (
    CONNECT_SECONDS,
    Secrets,
    in_thread,
)
from groundline_ingestor.adapters.sources.directory import allowed_path, directory_changes
from groundline_ingestor.adapters.sources.feed import LinkedPages, feed_changes
from groundline_ingestor.adapters.sources.git import git_changes
from groundline_ingestor.adapters.sources.imap import imap_changes
from groundline_ingestor.adapters.sources.mbox import mbox_changes
from groundline_ingestor.adapters.sources.postgres import postgres_changes
from groundline_ingestor.adapters.sources.s3 import s3_changes
from groundline_ingestor.adapters.sources.web import web_changes
from groundline_ingestor.crawling import SeenPage
from groundline_ingestor.domain.sources import Change, Found, Present, StoredSource, Unreadable
from groundline_ingestor.ports import Crawler, SeenPages

__all__ = ["SourceConnectors"]

MAX_URI_BYTES: Final = 2500
"""As DocumentInput.uri."""
_SHOWN_CHARACTERS: Final = 200


class SourceConnectors:
    """Implements Connectors."""

    def __init__(
        self,
        crawler: Crawler,
        seen_pages: Callable[[str], SeenPages],
        sandbox: Sandbox,
        *,
        user_agent: str,
        directories: Sequence[Path],
        secrets_directory: Path | None,
        max_document_bytes: int,
        spool_directory: Path | None,
    ) -> None:
        self._crawler = crawler
        self._seen_pages = seen_pages
        self._sandbox = sandbox
        self._user_agent = user_agent
        self._directories = directories
        self._secrets = Secrets(secrets_directory)
        self._max_bytes = max_document_bytes
        self._spool = spool_directory

    def require_available(self, source: source_pb2.DocumentSource) -> None:
        if source.HasField("directory"):
            allowed_path(source.directory.path, self._directories)
        if source.HasField("mbox"):
            allowed_path(source.mbox.path, self._directories)
        for name in _secret_names(source):
            self._secrets.require(source.collection_id, name)

    async def changes(
        self, source: StoredSource, *, private_addresses: bool, is_dry_run: bool = False
    ) -> AsyncGenerator[Change, None]:
        found = self._changes(source, private_addresses=private_addresses, is_dry_run=is_dry_run)
        async with aclosing(found) as changes:
            async for change in changes:
                yield _storable(change)

    def _changes(
        self, stored: StoredSource, *, private_addresses: bool, is_dry_run: bool
    ) -> AsyncGenerator[Change, None]:
        source = stored.message
        kind = source.WhichOneof("kind")
        if kind == "web":
            kept = self._seen_pages(source.source_id)
            seen: SeenPages = _OnlyRecalled(kept) if is_dry_run else kept
            return web_changes(source, self._crawler, seen, private_addresses=private_addresses)
        if kind == "postgres":
            url = self._secrets.read(source.collection_id, source.postgres.url_secret)
            return postgres_changes(
                source, url=url, cursor=stored.cursor, private_addresses=private_addresses
            )
        if kind == "directory":
            top = allowed_path(source.directory.path, self._directories)
            return in_thread(directory_changes(source, top, max_bytes=self._max_bytes, spool=self._spool))
        if kind == "mbox":
            top = allowed_path(source.mbox.path, self._directories)
            return in_thread(
                mbox_changes(source, top, cursor=stored.cursor, max_bytes=self._max_bytes, spool=self._spool)
            )
        if kind == "imap":
            return in_thread(
                imap_changes(
                    source,
                    cursor=stored.cursor,
                    password=self._secrets.read(source.collection_id, source.imap.password_secret),
                    private_addresses=private_addresses,
                    max_bytes=self._max_bytes,
                    spool=self._spool,
                )
            )
        pool = pinned_pool(private_addresses=private_addresses, timeout_seconds=CONNECT_SECONDS)
        if kind == "s3":
            return in_thread(
                s3_changes(
                    source,
                    pool,
                    access_key=self._secret(source, source.s3.access_key_secret),
                    secret_key=self._secret(source, source.s3.secret_key_secret),
                    max_bytes=self._max_bytes,
                    spool=self._spool,
                )
            )
        if kind == "git":
            return in_thread(
                git_changes(
                    source,
                    pool,
                    cursor=stored.cursor,
                    password=self._secret(source, source.git.password_secret),
                    max_bytes=self._max_bytes,
                    spool=self._spool,
                )
            )
        if kind == "feed":
            return in_thread(
                feed_changes(
                    source,
                    pool,
                    self._sandbox,
                    cursor=stored.cursor,
                    password=self._secret(source, source.feed.password_secret),
                    user_agent=self._user_agent,
                    pages=LinkedPages(self._crawler, private_addresses=private_addresses),
                )
            )
        raise UnimplementedError(
            "OPTION_NOT_AVAILABLE", "the source is of a kind that this release does not know"
        )

    def _secret(self, source: source_pb2.DocumentSource, name: str) -> str | None:
        return self._secrets.read(source.collection_id, name) if name else None


class _OnlyRecalled:
    """Implements SeenPages; what is seen now is not kept."""

    def __init__(self, pages: SeenPages) -> None:
        self._pages = pages

    async def recall(self, url: str) -> SeenPage | None:
        return await self._pages.recall(url)

    async def note(self, page: SeenPage) -> None:
        pass

    async def forget(self, *, unseen_seconds: float) -> None:
        pass


def _secret_names(source: source_pb2.DocumentSource) -> list[str]:
    names = [
        source.s3.access_key_secret,
        source.s3.secret_key_secret,
        source.git.password_secret,
        source.postgres.url_secret,
        source.feed.password_secret,
        source.imap.password_secret,
    ]
    return [name for name in names if name]


def _storable(change: Change) -> Change:
    """What has a name that no document can have is reported by one that it can."""
    if not isinstance(change, Found | Present):
        return change
    uri = change.uri
    shown = "".join(one if one.isprintable() else "\ufffd" for one in uri)
    if shown == uri and len(uri.encode()) <= MAX_URI_BYTES:
        return change
    message = f"its name cannot be a uri: it cannot be shown, or has more than {MAX_URI_BYTES} bytes"
    return Unreadable(shown[:_SHOWN_CHARACTERS], "SOURCE_REFUSED", message)
