"""Registry of the kinds of sources. A kind is what an entry point leads to, loaded when a source of it is
first created or read: of a module of `sources`, or of a plug-in's package."""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final

import structlog
from google.protobuf.json_format import MessageToDict
from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import limits_pb2, source_pb2
from groundline_extraction.sandbox import Sandbox
from groundline_runtime.errors import FieldViolation, InvalidArgumentError, UnimplementedError
from groundline_validation import has_format
from pydantic import ValidationError

from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.sources.common import (
    INTERFACE_VERSION,
    PluginSettings,
    Run,
    SourceKind,
    not_available,
)
from groundline_collector.adapters.threads import OwnThread, is_full
from groundline_collector.changes import Change
from groundline_collector.ports import SeenPages
from groundline_collector.settings import CollectorSettings

if TYPE_CHECKING:
    from groundline_collector.adapters.crawling import HttpCrawler

GROUP: Final = "groundline.sources"
"""Group of the entry points of kinds."""
SHIPPED: Final = ("confluence", "webdav")
"""Plug-ins that the collector brings itself."""

_log = structlog.get_logger(__name__)


class SourceRegistry:
    """Implements Sources."""

    def __init__(self, settings: CollectorSettings, secrets: Secrets, sandbox: Sandbox) -> None:
        self._settings = settings
        self._secrets = secrets
        self._sandbox = sandbox
        self._crawler = cache(self._load_crawler)

    def require_available(self, source: source_pb2.DocumentSource) -> None:
        kind, asked = kind_of(source)
        kind.require(asked, self._settings)
        for name in secrets_of(asked):
            self._secrets.require(source.collection_id, name, kind.secret_host(asked))

    async def read(
        self, start: pb.CollectStart, pages: SeenPages
    ) -> AsyncGenerator[tuple[Sequence[Change], OwnThread], None]:
        thread = OwnThread()
        try:
            async with aclosing(self.batches(start, pages, thread)) as batches:
                async for batch in batches:
                    yield batch, thread
        finally:
            thread.end()

    def batches(
        self, start: pb.CollectStart, pages: SeenPages, thread: OwnThread
    ) -> AsyncGenerator[list[Change], None]:
        """Yield what a run in this thread finds; raises what `read` does."""
        try:
            kind, asked = kind_of(start.source)
        except InvalidArgumentError as error:  # was valid once: the operator has changed what is installed
            raise not_available(
                "; ".join(f"{one.field} {one.description}" for one in error.violations)
            ) from None
        run = Run(
            kind, asked, start, self._settings, self._secrets, self._sandbox, self._crawler, pages, thread
        )
        changes = kind.changes(run)
        if isinstance(changes, Generator):
            return thread.batches(changes)
        # Pages of a site come seconds apart: none waits for others.
        return _batched(changes, are_slow=start.source.HasField("web"))

    def _load_crawler(self) -> "HttpCrawler":
        from groundline_collector.adapters.crawling import HttpCrawler
        from groundline_collector.adapters.fetching import CrawlLimits

        return HttpCrawler(self._sandbox, CrawlLimits(user_agent=self._settings.user_agent))


def kind_of(source: source_pb2.DocumentSource) -> tuple[SourceKind, Any]:
    """Return the kind of a source and its settings. Raises FailedPreconditionError (SOURCE_NOT_AVAILABLE) if
    there is no such kind, InvalidArgumentError naming the settings that are wrong, UnimplementedError
    (OPTION_NOT_AVAILABLE)."""
    field = source.WhichOneof("kind")
    if field is None:
        message = "the source is of a kind that this release does not know"
        raise UnimplementedError("OPTION_NOT_AVAILABLE", message)
    if field != "plugin":
        return _loaded(field, _own(field)), getattr(source, field)
    name = source.plugin.kind
    kind = _loaded(name, _plugin(name))
    if kind.settings is None:
        raise not_available(f"{name!r} is a field of the source, not a plug-in")
    try:
        asked = kind.settings.model_validate(MessageToDict(source.plugin.settings))
    except ValidationError as error:
        raise InvalidArgumentError(
            FieldViolation(_path(".".join(map(str, one["loc"]))), one["msg"][:200])
            for one in error.errors(include_url=False, include_context=False, include_input=False)[:100]
        ) from None
    for setting, secret in _secret_settings(asked):
        if not has_format(secret, limits_pb2.TEXT_FORMAT_SECRET_NAME):
            violation = FieldViolation(_path(setting), "must be the name of a secret")
            raise InvalidArgumentError([violation])
    return kind, asked


def secrets_of(asked: Any) -> list[str]:
    """Return the names of the secrets that settings name."""
    if isinstance(asked, PluginSettings):
        return [secret for _, secret in _secret_settings(asked)]
    return [value for field, value in asked.ListFields() if field.name.endswith("_secret")]


def _secret_settings(asked: PluginSettings) -> list[tuple[str, str]]:
    return [(name, value) for name, value in asked if name.endswith("_secret") and value]


def _own(name: str) -> EntryPoint:
    return EntryPoint(name, f"groundline_collector.adapters.sources.{name}:KIND", GROUP)


def _plugin(name: str) -> EntryPoint:
    """Return the only entry point of a name. Raises FailedPreconditionError."""
    if name in SHIPPED:
        return _own(name)
    found = list(entry_points(group=GROUP, name=name))
    if len(found) != 1:
        known = ", ".join(sorted({*SHIPPED, *entry_points(group=GROUP).names})[:50])
        say = f"{len(found)} packages have a kind {name!r}" if found else f"no kind {name!r} is installed"
        raise not_available(f"{say}; there are: {known}")
    return found[0]


def _loaded(name: str, point: EntryPoint) -> SourceKind:
    """Return what an entry point leads to. Raises FailedPreconditionError unless it is a kind of this
    interface."""
    try:
        kind = point.load()
    except Exception as error:  # whatever a plug-in's module raises
        _log.exception("plugin_not_loaded", kind=name)
        raise not_available(f"the plug-in {name!r} cannot be loaded ({type(error).__name__})") from None
    if not isinstance(kind, SourceKind):
        raise not_available(f"the plug-in {name!r} names something other than a SourceKind")
    if kind.interface_version != INTERFACE_VERSION:
        version = f"version {kind.interface_version} of the interface; this release has {INTERFACE_VERSION}"
        raise not_available(f"the plug-in {name!r} is for {version}")
    return kind


def _path(setting: str) -> str:
    return f"source.plugin.settings.{setting}".rstrip(".")


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
