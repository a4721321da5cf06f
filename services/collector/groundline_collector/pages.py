"""Statements of web pages about themselves; pure functions."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from typing import Final

from groundline.v1 import source_pb2

_VALUED_RULES: Final = {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
"""Rules that have a colon themselves."""
_PATTERN_TOKEN: Final = re.compile(r"\*\*|.", re.DOTALL)


def takes(source: source_pb2.DocumentSource, path: str) -> bool:
    """Tell whether a source wants the page at this path."""
    return not _matches(source.exclude_paths, path) and (
        not source.include_paths or _matches(source.include_paths, path)
    )


def _matches(patterns: Sequence[str], path: str) -> bool:
    return any(path_matches(pattern, path) for pattern in patterns)


def version_of(content: bytes) -> str:
    """Return a page's version, by which its last seen state is compared with the stored one."""
    return hashlib.sha256(content).hexdigest()


def conditions(etag: str, last_modified: str) -> dict[str, str]:
    """Return the headers of a request for a page if it has changed since a response with these."""
    headers = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    return {name: value for name, value in headers.items() if value}


def robots_directives(values: Iterable[str], user_agent: str) -> set[str]:
    """Return the directives of X-Robots-Tag and meta elements for this agent: noindex, nofollow. A value may
    begin with an agent's name and a colon."""
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
    """Return the latest moment that a sitemap's time of change may mean, which may be a day; None for a text
    that is not a time."""
    try:
        if len(text) == len("2026-01-01"):
            return datetime.combine(date.fromisoformat(text), time.max, UTC)
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def path_matches(pattern: str, path: str) -> bool:
    """Tell whether a pattern matches the whole path: `*` is anything within a part of it, `**` anything.

    It takes time in proportion to both lengths, whatever the pattern.
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
    """Add the places behind wildcards, which may match nothing."""
    reachable = set(places)
    for place in places:
        while place < len(tokens) and tokens[place] in {"*", "**"}:
            place += 1
            reachable.add(place)
    return reachable
