"""Entries of an RSS or Atom feed, as JSON for the connector; not a format of documents."""

import html
import json
import time
from io import BytesIO
from typing import Any, Final

import feedparser

from groundline_extraction.readers.common import (
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    clean,
    one_line,
)

MAX_ENTRIES: Final = 10_000
MAX_CATEGORIES: Final = 50
_PLAIN: Final = "text/plain"


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read a list of objects with `id`, `link`, `title`, `html` and `metadata`, in the feed's order. Raises
    ReadError with CORRUPT_DOCUMENT if the file is not a feed, DOCUMENT_TOO_LARGE."""
    # Bytes in a file: a string could be taken for an address. HTML in entries is read later, by a reader that
    # runs nothing.
    found = feedparser.parse(
        BytesIO(data),
        response_headers={"content-type": hints.mime_type} if hints.mime_type else {},
        sanitize_html=False,
        resolve_relative_uris=False,
    )
    if not found.get("version"):
        raise ReadError("CORRUPT_DOCUMENT", "neither an RSS nor an Atom feed")
    if len(found.entries) > MAX_ENTRIES:
        raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_ENTRIES} entries")
    return Read(json.dumps([_entry(entry) for entry in found.entries]))


def _entry(entry: Any) -> dict[str, Any]:
    """Return an entry; a missing value is empty, or left out of the metadata."""
    contents = entry.get("content") or [entry.get("summary_detail") or {}]
    metadata = {
        "author": one_line(entry.get("author", "")),
        "published": _time(entry, "published_parsed"),
        "updated": _time(entry, "updated_parsed"),
        "categories": [
            one_line(tag.get("term") or tag.get("label") or "", 100)
            for tag in entry.get("tags", [])[:MAX_CATEGORIES]
        ],
    }
    return {
        "id": one_line(entry.get("id", "")),
        "link": one_line(entry.get("link", ""), 2500),
        # Feeds escape titles as HTML, once more than they should.
        "title": one_line(html.unescape(entry.get("title", ""))),
        "html": "\n".join(_html(content) for content in contents),
        "metadata": {name: value for name, value in metadata.items() if value},
    }


def _html(content: Any) -> str:
    value = clean(content.get("value", ""))
    return f"<pre>{html.escape(value)}</pre>" if content.get("type") == _PLAIN else value


def _time(entry: Any, name: str) -> str:
    """Return a time of the parser in ISO 8601, in UTC."""
    # The entry's own get() returns one time for the other if only that is present.
    parsed = dict.get(entry, name)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", parsed) if parsed else ""
