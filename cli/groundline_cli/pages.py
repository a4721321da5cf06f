"""Pages of reports, each of which needs nothing from elsewhere.

A page is built as a tree of elements, which escapes every text when it is written.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #d5d9de; --mark: #0b61a4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e6ea; --paper: #15181c; --faint: #3a4048; --mark: #6db3f2; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 70rem;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem; border-bottom: 1px solid var(--faint);
  overflow-wrap: anywhere; }
figure { display: inline-block; margin: 0 2rem 1rem 0; }
svg { max-width: 100%; height: auto; }
svg text { font-size: 12px; fill: var(--ink); }
.grid { stroke: var(--faint); fill: none; }
.guide { stroke: var(--ink); stroke-dasharray: 4 4; fill: none; }
.curve { stroke: var(--mark); stroke-width: 2; fill: none; }
.interval { stroke: var(--mark); stroke-width: 3; stroke-linecap: round; opacity: .55; }
.mark { fill: var(--mark); }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class ReportPage:
    """A page with its title as the heading."""

    def __init__(self, title: str) -> None:
        self._page = Element("html", {"lang": "en"})
        head = SubElement(self._page, "head")
        SubElement(head, "meta", {"charset": "utf-8"})
        SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
        SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
        add(head, "title", title)
        add(head, "style", _STYLE)
        self.body = SubElement(self._page, "body")
        add(self.body, "h1", title)

    def as_html(self) -> str:
        """Return its text."""
        return f"<!DOCTYPE html>\n{tostring(self._page, encoding='unicode', method='html')}\n"


def add_table(body: Element, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Add a table of texts."""
    table = SubElement(body, "table")
    line = SubElement(SubElement(table, "thead"), "tr")
    for heading in headings:
        add(line, "th", heading).set("scope", "col")
    lines = SubElement(table, "tbody")
    for row in rows:
        line = SubElement(lines, "tr")
        for cell in row:
            # Another language's text may run from right to left; it must not turn what stands beside it.
            add(line, "td", cell).set("dir", "auto")


def add(parent: Element, tag: str, text: str) -> Element:
    """Add an element with a text, and return it; control characters are replaced."""
    element = SubElement(parent, tag)
    element.text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return element
