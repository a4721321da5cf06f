"""What a crawl is asked for and what it finds; values and pure functions."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Final
from urllib.parse import urljoin, urlsplit, urlunsplit

from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import passage_pb2

from groundline_ingestor.domain.documents import GivenDocument

__all__ = [
    "CrawlFailure",
    "CrawlFind",
    "CrawledPage",
    "SeenPage",
    "UnchangedPage",
    "conditions",
    "effective_crawl",
    "link_target",
    "modified_time",
    "path_matches",
    "robots_directives",
    "takes",
    "version_of",
]

MAX_URL_BYTES: Final = 2000
DEFAULT_PAGES: Final = 100
DEFAULT_DEPTH: Final = 3

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_VALUED_RULES: Final = {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
"""Rules that have a colon themselves."""
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
    """A page as it was served; `url` is the address that it names canonical, or else where redirects led.

    `is_indexed`: False where it asks to be left out.
    """

    url: str
    content: bytes
    mime_type: str
    is_indexed: bool = True

    def document(self) -> GivenDocument:
        """The page as a document to ingest, of which nothing is said yet but what it is."""
        return GivenDocument(
            content=self.content,
            uri=self.url,
            mime_type=self.mime_type,
            source_type=passage_pb2.SOURCE_TYPE_WEB,
        )


@dataclass(frozen=True)
class UnchangedPage:
    """A page that has not changed since it was last read."""

    url: str


@dataclass(frozen=True)
class CrawlFailure:
    """A page that could not be had: an UPPER_SNAKE reason, and the same for people."""

    url: str
    reason: str
    message: str
    is_gone: bool = False
    """The server says that there is no such page any more."""
    hides_pages: bool = False
    """There may be pages that were not found for want of this one."""


type CrawlFind = CrawledPage | UnchangedPage | CrawlFailure


@dataclass(frozen=True)
class SeenPage:
    """What was seen of a page: by `version`, a hash of its content, and where it led. `uri` is that of its
    document, empty where it asks to be left out."""

    url: str
    uri: str
    version: str
    links: tuple[str, ...]
    read_time: datetime
    etag: str = ""
    last_modified: str = ""
    is_current: bool = field(default=True, compare=False)
    """Whether its document is what was seen; False where it has to be read again."""


def version_of(content: bytes) -> str:
    """A page's version, by which what was seen of it is compared with what is stored."""
    return hashlib.sha256(content).hexdigest()


def conditions(etag: str, last_modified: str) -> dict[str, str]:
    """Headers of a request for what an answer with these held, if it has changed."""
    headers = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    return {name: value for name, value in headers.items() if value}


def robots_directives(values: Iterable[str], user_agent: str) -> set[str]:
    """What X-Robots-Tag and meta elements ask of this agent: noindex, nofollow. A value may begin with an
    agent's name and a colon."""
    agent = user_agent.partition("/")[0].strip().lower()
    found: set[str] = set()
    for value in values:
        rules = value.lower()
        name, colon, rest = rules.partition(":")
        if colon and "," not in name and name.strip() not in _VALUED_RULES:
            if name.strip() != agent:
                continue
            rules = rest
        found.update(rule.strip() for rule in rules.split(","))
    return {"noindex", "nofollow"} if "none" in found else found & {"noindex", "nofollow"}


def modified_time(text: str) -> datetime | None:
    """The latest moment that a sitemap's time of change may mean, which may be a day; None for what is no
    time."""
    try:
        if len(text) == len("2026-01-01"):
            return datetime.combine(date.fromisoformat(text), time.max, UTC)
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


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
