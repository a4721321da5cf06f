"""What a crawl is asked for and what it finds; values and pure functions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit, urlunsplit

from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import passage_pb2

from groundline_ingestor.domain.documents import GivenDocument

__all__ = [
    "CrawlFailure",
    "CrawledPage",
    "effective_crawl",
    "link_target",
    "path_matches",
    "takes",
]

MAX_URL_BYTES: Final = 2000
DEFAULT_PAGES: Final = 100
DEFAULT_DEPTH: Final = 3

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PATTERN_TOKEN: Final = re.compile(r"\*\*|.", re.DOTALL)


def effective_crawl(crawl: pb.WebCrawl) -> pb.WebCrawl:
    """The crawl with the contract's defaults and its start in one spelling. Without `delay_seconds` it pauses
    as robots.txt asks, else a second. Raises ValueError for a start that is no page."""
    start_url = link_target(crawl.start_url, "")
    if start_url is None:
        raise ValueError("not an http or https URL without credentials")
    effective = pb.WebCrawl()
    effective.CopyFrom(crawl)
    effective.start_url = start_url
    effective.max_pages = crawl.max_pages or DEFAULT_PAGES
    effective.max_depth = crawl.max_depth if crawl.HasField("max_depth") else DEFAULT_DEPTH
    return effective


def takes(crawl: pb.WebCrawl, path: str) -> bool:
    """Whether a crawl wants pages at this path."""
    if any(path_matches(pattern, path) for pattern in crawl.exclude_paths):
        return False
    return not crawl.include_paths or any(path_matches(pattern, path) for pattern in crawl.include_paths)


@dataclass(frozen=True)
class CrawledPage:
    """A page as it was served; `url` is where redirects led."""

    url: str
    content: bytes
    mime_type: str

    def document(self) -> GivenDocument:
        """The page as a document to ingest, of which nothing is said yet but what it is."""
        return GivenDocument(
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
    status: int = 0
    """Of the server's answer, where that is the reason."""


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
