"""HTML by trafilatura: the main content as Markdown, without navigation, footers and advertisements."""

from copy import deepcopy

import trafilatura
from trafilatura.settings import DEFAULT_CONFIG

from groundline_ingestor.adapters.extraction.readers.common import Hints, Limits, Read, ReadError, clean

__all__ = ["read"]

_CONFIG = deepcopy(DEFAULT_CONFIG)
# Its default of 250 characters gives up the structure of short pages.
_CONFIG["DEFAULT"]["MIN_EXTRACTED_SIZE"] = "20"


def read(data: bytes, hints: Hints, limits: Limits) -> Read:
    """The main content; all of the text where none can be told from the rest. Raises ReadError."""
    if b"<html" not in data[:100_000].lower():
        data = b"<html><body>" + data + b"</body></html>"
    tree = trafilatura.load_html(data)
    if tree is None:
        raise ReadError("CORRUPT_DOCUMENT", "no HTML could be read")
    text = trafilatura.extract(
        data, output_format="markdown", include_comments=False, favor_recall=True, config=_CONFIG
    )
    title = (tree.findtext(".//title") or "").strip()
    return Read(
        clean(text or trafilatura.html2txt(data) or ""),
        markdown=bool(text),
        title=clean(" ".join(title.split()))[:500],
    )
