"""Sitemaps and their indexes (https://www.sitemaps.org), in XML or one address a line: a line for each entry,
which is `page` or `sitemap`, its address and when it changed, between tabs."""

from collections.abc import Iterator
from typing import Any, Final

from groundline_extraction.readers.common import (
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    clean,
    one_line,
)
from groundline_extraction.readers.data.xml import parsed

MAX_ENTRIES: Final = 50_000
"""Maximum entries that the protocol allows."""
_KINDS: Final = {"url": "page", "sitemap": "sitemap"}


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read at most MAX_ENTRIES entries. Raises ReadError with CORRUPT_DOCUMENT."""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        root = parsed(data.lstrip(b" \t\r\n"))
        if _name(root) not in {"urlset", "sitemapindex"}:
            raise ReadError("CORRUPT_DOCUMENT", "this is not a sitemap")
        entries = list(_entries(root))
    else:
        lines = data.decode("utf-8", "replace").splitlines()[:MAX_ENTRIES]
        entries = [f"page\t{one_line(line, 2000)}\t" for line in lines if line.startswith("http")]
        if not entries:
            raise ReadError("CORRUPT_DOCUMENT", "this is not a sitemap")
    return Read(clean("\n".join(entries)))


def _entries(root: Any) -> Iterator[str]:
    for entry in root[:MAX_ENTRIES]:
        kind = _KINDS.get(_name(entry))
        if kind is None:
            continue
        texts = {_name(child): "".join("".join(child.itertext()).split()) for child in entry}
        if address := texts.get("loc"):
            yield f"{kind}\t{address}\t{texts.get('lastmod', '')}"


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2] if isinstance(element.tag, str) else ""
