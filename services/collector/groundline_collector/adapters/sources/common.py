"""Shared parts of connectors: a run, and their errors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import source_pb2
from groundline_extraction.sandbox import Sandbox
from groundline_runtime.errors import FailedPreconditionError, UnavailableError

from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.threads import OwnThread
from groundline_collector.pages import takes
from groundline_collector.ports import SeenPages
from groundline_collector.settings import CollectorSettings

if TYPE_CHECKING:
    import urllib3

    from groundline_collector.adapters.crawling import HttpCrawler

__all__ = [
    "CONNECT_SECONDS",
    "Run",
    "host_of",
    "not_allowed",
    "not_available",
    "refused",
    "secrets_go_to",
    "unreachable",
]

CONNECT_SECONDS: Final = 60.0
"""Maximum time of connecting, and of each read, in seconds."""


@dataclass(frozen=True)  # without slots, for cached_property
class Run:
    """A run of a source, and the means to read it."""

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
            case "postgres" | "imap" | "mbox":
                return f"{source.name}/"
            case _:
                return ""

    def takes(self, path: str) -> bool:
        """Tell whether the source wants the document at this path."""
        return takes(self.source, path)

    def secret(self, name: str) -> str | None:
        """Return a secret of the collection; None for no name. Raises FailedPreconditionError."""
        return (
            self.secrets.read(self.source.collection_id, name, secrets_go_to(self.source)) if name else None
        )

    def pool(self) -> "urllib3.PoolManager":
        """Return connections for clients that build on urllib3; clear it when done."""
        from groundline_collector.adapters.pool import pinned_pool

        return pinned_pool(
            self.thread.connections, private_addresses=self.private_addresses, timeout_seconds=CONNECT_SECONDS
        )


def secrets_go_to(source: source_pb2.DocumentSource) -> str | None:
    """Return the host that a source's secrets are sent to; None if a secret itself names it."""
    match source.WhichOneof("kind"):
        case "s3":
            return host_of(source.s3.endpoint_url)
        case "git":
            return host_of(source.git.url)
        case "feed":
            return host_of(source.feed.url)
        case "imap":
            return source.imap.host
        case _:
            return None


def not_available(message: str) -> FailedPreconditionError:
    return FailedPreconditionError("SOURCE_NOT_AVAILABLE", message)


def not_allowed(error: Exception) -> FailedPreconditionError:
    """Translate an AddressNotAllowedError."""
    return FailedPreconditionError("ADDRESS_NOT_ALLOWED", str(error))


def refused(message: str) -> FailedPreconditionError:
    return FailedPreconditionError("SOURCE_REFUSED", message)


def unreachable(what: str) -> UnavailableError:
    return UnavailableError("SOURCE_UNREACHABLE", f"{what} does not answer")


def host_of(url: str) -> str:
    """Return the part of a URL that errors may show."""
    return urlsplit(url).hostname or ""
