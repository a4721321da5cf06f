"""Links of a page, one a line, as they are written there; resolved where the page has a base of its own."""

from urllib.parse import urljoin

import trafilatura

from groundline_ingestor.adapters.extraction.readers.common import Hints, Read, ReaderLimits, clean

__all__ = ["read"]

MAX_LINKS = 10_000


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Those of anchors, at most MAX_LINKS."""
    tree = trafilatura.load_html(data)
    if tree is None:
        return Read("")
    base = next(iter(tree.xpath("//base/@href")), "")
    links = []
    for link in tree.xpath("//a/@href")[:MAX_LINKS]:
        try:
            target = urljoin(base, link.strip())
        except ValueError:
            continue
        if target and not any(character.isspace() for character in target):
            links.append(target)
    return Read(clean("\n".join(links)))
