"""The interface of kinds of sources, built-in or not. The other half is groundline_collector.changes."""

from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import source_pb2
from groundline_extraction.sandbox import Sandbox
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from pydantic import AfterValidator, BaseModel, ConfigDict

from groundline_collector.adapters.addresses import AddressNotAllowedError
from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.threads import OwnThread
from groundline_collector.changes import Change
from groundline_collector.pages import takes
from groundline_collector.ports import SeenPages
from groundline_collector.settings import CollectorSettings

if TYPE_CHECKING:
    import urllib3

    from groundline_collector.adapters.crawling import HttpCrawler

CONNECT_SECONDS: Final = 60.0
"""Maximum time of connecting, and of each read, in seconds."""
TRANSIENT_STATUSES: Final = (408, 425, 429, *range(500, 600))
"""Statuses of HTTP that say nothing of what is there."""

INTERFACE_VERSION: Final = 1
"""Version of this interface. A change that a kind would notice raises it; kinds of another are refused."""


class PluginSettings(BaseModel):
    """Base of a plug-in's settings, which have no other fields than the class has. A field whose name ends in
    "_secret" is the name of a secret, never the secret; empty: none."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


def _folder_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise ValueError("must be an http or https URL without credentials")
    if parts.query or parts.fragment:
        raise ValueError("must have no query")
    return url if url.endswith("/") else f"{url}/"


FolderAddress = Annotated[str, AfterValidator(_folder_address)]
"""Setting that is an http or https URL below which everything lies; ends with "/"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """A kind of source, to which an entry point leads."""

    interface_version: int
    """INTERFACE_VERSION that it was written for, as a number."""
    changes: "Callable[[Run], Generator[Change] | AsyncGenerator[Change, None]]"
    """Yields what a run finds; a generator that blocks, or one of the event loop's."""
    settings: type[PluginSettings] | None = None
    """Settings of sources of it. None: a message of the contract, as built-in kinds have."""
    secret_host: Callable[[Any], str | None] = lambda asked: None
    """Host that a source's secrets are sent to, by its settings; None if a secret itself names it, or none
    is sent."""
    require: Callable[[Any, CollectorSettings], object] = lambda asked, settings: None
    """Raises FailedPreconditionError unless the operator allows what the source's settings name."""


@dataclass(frozen=True)  # without slots, for cached_property
class Run:
    """A run of a source, and the means to read it."""

    kind: SourceKind
    asked: Any
    """Settings of the source, checked: what SourceKind.settings says."""
    start: pb.CollectStart
    settings: CollectorSettings
    secrets: Secrets
    sandbox: Sandbox
    crawler: Callable[[], "HttpCrawler"]
    pages: SeenPages
    thread: OwnThread

    @property
    def source(self) -> source_pb2.DocumentSource:
        return self.start.source

    @property
    def private_addresses(self) -> bool:
        """Whether collection and operator allow addresses outside the internet."""
        return self.start.private_addresses and self.settings.private_addresses

    @cached_property
    def uri_prefix(self) -> str:
        """Beginning of every document's uri, before its path."""
        source = self.source
        if source.uri_prefix:
            return source.uri_prefix
        match source.WhichOneof("kind"):
            case "s3":
                return f"s3://{source.s3.bucket}/{source.s3.prefix}"
            case "postgres" | "imap" | "mbox" | "plugin":
                return f"{source.name}/"
            case _:
                return ""

    def takes(self, path: str) -> bool:
        """Tell whether the source wants the document at this path."""
        return takes(self.source, path)

    def secret(self, name: str) -> str | None:
        """Return a secret of the collection; None for no name. Raises FailedPreconditionError."""
        host = self.kind.secret_host(self.asked)
        return self.secrets.read(self.source.collection_id, name, host) if name else None

    def pool(self) -> "urllib3.PoolManager":
        """Return connections for clients that build on urllib3; clear it when done."""
        from groundline_collector.adapters.pool import pinned_pool

        return pinned_pool(
            self.thread.connections, private_addresses=self.private_addresses, timeout_seconds=CONNECT_SECONDS
        )


def not_available(message: str) -> FailedPreconditionError:
    return FailedPreconditionError("SOURCE_NOT_AVAILABLE", message)


def not_allowed(error: Exception) -> FailedPreconditionError:
    """Translate an AddressNotAllowedError."""
    return FailedPreconditionError("ADDRESS_NOT_ALLOWED", str(error))


def refused(message: str) -> FailedPreconditionError:
    return FailedPreconditionError("SOURCE_REFUSED", message)


def unreachable(what: str) -> UnavailableError:
    return UnavailableError("SOURCE_UNREACHABLE", f"{what} does not answer")


def failure_of(error: Exception, host: str) -> Exception:
    """Translate what a connection of Run.pool raises: urllib3's HTTPError, AddressNotAllowedError."""
    from groundline_collector.adapters.pool import AnswerTooLargeError

    if isinstance(error, AddressNotAllowedError):
        return not_allowed(error)
    return refused(f"{host}: {error}") if isinstance(error, AnswerTooLargeError) else unreachable(host)


def host_of(url: str) -> str:
    """Return the part of a URL that errors may show."""
    return urlsplit(url).hostname or ""
