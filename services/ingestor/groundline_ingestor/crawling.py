"""What a crawl is asked for and what it finds; values and pure functions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit, urlunsplit

from groundline.v1 import passage_pb2

from groundline_ingestor.domain.documents import DocumentInput

__all__ = [
    "CrawlFailure",
    "CrawlRequest",
    "CrawledPage",
    "link_target",
    "path_matches",
]

MAX_URL_BYTES: Final = 2000

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PATTERN_TOKEN: Final = re.compile(r"\*\*|.", re.DOTALL)


@dataclass(frozen=True)
class CrawlRequest:
    """Which pages to take; the defaults are the contract's. `delay_seconds` None: what robots.txt asks for,
    else 1."""

    start_url: str
    max_pages: int = 100
    max_depth: int = 3
    include_paths: tuple[str, ...] = ()
    exclude_paths: tuple[str, ...] = ()
    delay_seconds: float | None = None
    allow_private_addresses: bool = False

    def takes(self, path: str) -> bool:
        """Whether pages at this path are wanted."""
        if any(path_matches(pattern, path) for pattern in self.exclude_paths):
            return False
        return not self.include_paths or any(path_matches(pattern, path) for pattern in self.include_paths)


@dataclass(frozen=True)
class CrawledPage:
    """A page as it was served; `url` is where redirects led."""

    url: str
    content: bytes
    mime_type: str

    def document(self) -> DocumentInput:
        """The page as a document to ingest; whoever may read its collection may read it."""
        return DocumentInput(
            content=self.content,
            uri=self.url,
            mime_type=self.mime_type,
            source_type=passage_pb2.SOURCE_TYPE_WEB,
        )


@dataclass(frozen=True)
class CrawlFailure:
    """A page that could not be had: an UPPER_SNAKE reason, and the same for people."""

    url: str
    reason: str
    message: str


def link_target(link: str, base: str) -> str | None:
    """The page that a link on the page `base` leads to, in one spelling, without fragment.

    None for what is no web page: other schemes, credentials in the URL, what cannot be parsed.
    """
    try:
        parts = urlsplit(urljoin(base, link.strip()))
        port = parts.port
        host = (
            (parts.hostname or "").encode("idna").decode() if not _is_ip6(parts.hostname) else parts.hostname
        )
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host or parts.username is not None:
        return None
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORTS[parts.scheme]:
        netloc = f"{netloc}:{port}"
    target = urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))
    # What cannot be printed, NUL and halves of surrogate pairs among it, cannot be stored either.
    return target if target.isprintable() and len(target.encode()) <= MAX_URL_BYTES else None


def path_matches(pattern: str, path: str) -> bool:
    """Whether a pattern describes the whole path: `*` is anything within a part of it, `**` anything.

    Takes time in proportion to both lengths, whatever the pattern.
    """
    tokens = _PATTERN_TOKEN.findall(pattern)
    places = _reachable({0}, tokens)
    for character in path:
        following = set()
        for place in places:
            wanted = tokens[place] if place < len(tokens) else ""
            if wanted == "**" or (wanted == "*" and character != "/"):
                following.add(place)
            elif wanted == character:
                following.add(place + 1)
        places = _reachable(following, tokens)
    return len(tokens) in places


def _reachable(places: set[int], tokens: Sequence[str]) -> set[int]:
    """With the places behind wildcards, which may match nothing."""
    reachable = set(places)
    for place in places:
        while place < len(tokens) and tokens[place] in {"*", "**"}:
            place += 1
            reachable.add(place)
    return reachable


def _is_ip6(host: str | None) -> bool:
    return host is not None and ":" in host
