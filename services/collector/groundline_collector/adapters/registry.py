"""Registry of the kinds of sources. A kind is one module of `sources`, loaded when a source of it is first
read."""

import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import source_pb2
from groundline_extraction.sandbox import Sandbox
from groundline_runtime.errors import UnimplementedError

from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.sources.common import Run, secrets_go_to
from groundline_collector.adapters.threads import OwnThread, is_full
from groundline_collector.changes import Change
from groundline_collector.ports import SeenPages
from groundline_collector.settings import CollectorSettings

if TYPE_CHECKING:
    from groundline_collector.adapters.crawling import HttpCrawler

__all__ = ["SourceRegistry"]


class SourceRegistry:
    """Implements Sources. The function `changes` of a kind's module takes a Run and yields what it finds; it
    is a generator that blocks, or one of the event loop's."""

    def __init__(self, settings: CollectorSettings, secrets: Secrets, sandbox: Sandbox) -> None:
        self._settings = settings
        self._secrets = secrets
        self._sandbox = sandbox
        self._crawler = cache(self._load_crawler)

    def require_available(self, source: source_pb2.DocumentSource) -> None:
        kind = source.WhichOneof("kind") or ""
        definition = getattr(source, kind)
        if kind in ("directory", "mbox"):
            from groundline_collector.adapters.sources.directory import allowed_path

            allowed_path(definition.path, self._settings.source_directories)
        for field, value in definition.ListFields():
            if field.name.endswith("_secret"):
                self._secrets.require(source.collection_id, value, secrets_go_to(source))

    async def read(
        self, start: pb.CollectStart, pages: SeenPages
    ) -> AsyncGenerator[tuple[Sequence[Change], OwnThread], None]:
        thread = OwnThread()
        try:
            async with aclosing(self._batches(start, pages, thread)) as batches:
                async for batch in batches:
                    yield batch, thread
        finally:
            thread.end()

    def _batches(
        self, start: pb.CollectStart, pages: SeenPages, thread: OwnThread
    ) -> AsyncGenerator[list[Change], None]:
        run = Run(start, self._settings, self._secrets, self._sandbox, self._crawler, pages, thread)
        kind = _module_of(start.source)
        if inspect.isgeneratorfunction(kind.changes):
            return thread.batches(kind.changes(run))
        # Pages of a site come seconds apart: none waits for others.
        return _batched(kind.changes(run), are_slow=start.source.HasField("web"))

    def _load_crawler(self) -> "HttpCrawler":
        from groundline_collector.adapters.crawling import HttpCrawler
        from groundline_collector.adapters.fetching import CrawlLimits

        return HttpCrawler(self._sandbox, CrawlLimits(user_agent=self._settings.user_agent))


def _module_of(source: source_pb2.DocumentSource) -> Any:
    """Return the module of a source's kind. Raises UnimplementedError (OPTION_NOT_AVAILABLE)."""
    name = f"groundline_collector.adapters.sources.{source.WhichOneof('kind')}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        message = "the source is of a kind that this release does not know"
        raise UnimplementedError("OPTION_NOT_AVAILABLE", message) from None


async def _batched(
    changes: AsyncGenerator[Change, None], *, are_slow: bool
) -> AsyncGenerator[list[Change], None]:
    batch: list[Change] = []
    async with aclosing(changes):
        async for change in changes:
            batch.append(change)
            if are_slow or is_full(batch):
                yield batch
                batch = []
    if batch:
        yield batch
