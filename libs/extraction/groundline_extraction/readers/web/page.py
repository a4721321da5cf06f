"""Instructions of a web page to crawlers: a line for each link, canonical address and rule for robots.

A line has its kind before a tab. Addresses are as they are written there; resolved if the page has a base of
its own.
"""

from typing import Any, Final
from urllib.parse import urljoin

import trafilatura

from groundline_extraction.readers.common import (
    Hints,
    Read,
    ReaderLimits,
    clean,
    one_line,
)

MAX_LINKS: Final = 10_000


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read `robots` from meta elements, those of other names as "name: rules"; `canonical`; `link` of at most
    MAX_LINKS anchors."""
    tree = trafilatura.load_html(data)
    if tree is None:
        return Read("")
    base = next(iter(tree.xpath("//base/@href")), "")
    lines = [f"robots\t{rule}" for rule in _rules(tree)]
    canonical = tree.xpath("//link[translate(@rel, 'CANONIL', 'canonil')='canonical']/@href")
    for kind, links in (("canonical", canonical[:1]), ("link", tree.xpath("//a/@href")[:MAX_LINKS])):
        for link in links:
            try:
                target = urljoin(base, link.strip())
            except ValueError:
                continue
            if target and not any(character.isspace() for character in target):
                lines.append(f"{kind}\t{target}")
    return Read(clean("\n".join(lines)))


def _rules(tree: Any) -> list[str]:
    rules = []
    for meta in tree.xpath("//meta[@name and @content]")[:1000]:
        name, content = (one_line(meta.get(key)) for key in ("name", "content"))
        # Most other names are not robots'; the caller knows its own.
        rules.append(content if name.lower() == "robots" else f"{name}: {content}")
    return rules
