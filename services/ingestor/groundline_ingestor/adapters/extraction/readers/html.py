"""HTML as Markdown: what the page marks as its main content, else what trafilatura finds to be that."""

import re
from copy import deepcopy
from typing import Any, Final

import trafilatura
from lxml import etree, html
from trafilatura.settings import DEFAULT_CONFIG

from groundline_ingestor.adapters.extraction.encoding import decoded
from groundline_ingestor.adapters.extraction.readers.building import MarkdownBuilder
from groundline_ingestor.adapters.extraction.readers.common import (
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    clean,
    one_line,
)
from groundline_ingestor.adapters.extraction.readers.markup import add_markup

__all__ = ["read"]

_CONFIG = deepcopy(DEFAULT_CONFIG)
# Its default of 250 characters gives up the structure of short pages.
_CONFIG["DEFAULT"]["MIN_EXTRACTED_SIZE"] = "20"
_DECLARED: Final = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,50})", re.IGNORECASE)
_XML_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]*\?>")
_MAIN: Final = "//main | //*[@role='main'] | //article"
# What navigation, advertisements and imprints are in.
_AROUND: Final = (
    "//nav | //aside | //footer | //header[not(ancestor::main or ancestor::article)] | //form | "
    "//*[@role='navigation' or @role='banner' or @role='contentinfo' or @role='complementary']"
)
# A page made of tables of data, or a letter: nothing is around what it says.
_IS_PAGE: Final = (
    "//nav | //header | //footer | //aside | //script[@src] | //link[@rel='stylesheet'] | //form"
)


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Where no main content can be told from the rest it is all of the text. Raises ReadError."""
    tree = _tree(data, hints.charset)
    title = one_line(tree.findtext(".//title") or "")
    if (main := _main_content(tree)) is not None:
        builder = MarkdownBuilder(limits)
        add_markup(builder, main)
        read = builder.read(title=title)
        if read.text:
            return read
    text = trafilatura.extract(
        tree, output_format="markdown", include_comments=False, favor_recall=True, config=_CONFIG
    )
    return Read(clean(text or trafilatura.html2txt(tree) or ""), markdown=bool(text), title=title)


def _tree(data: bytes, charset: str) -> Any:
    declared = _DECLARED.search(data[:2048])
    try:
        text = decoded(data, charset=charset or (declared[1].decode() if declared else ""))
    except ReadError:
        text = decoded(data)  # pages say much
    # A declaration in a text whose encoding is known is an error to lxml.
    text = _XML_DECLARATION.sub("", text)
    try:
        return html.document_fromstring(text, parser=html.HTMLParser(huge_tree=True))
    except (etree.ParserError, ValueError):
        raise ReadError("CORRUPT_DOCUMENT", "no HTML could be read") from None


def _main_content(tree: Any) -> Any:
    """The element that the page says it is, or the body of one that has nothing else; None where there is no
    telling."""
    if not tree.xpath(_IS_PAGE):
        return tree.find(".//body")
    found = tree.xpath(_MAIN)
    outermost = [one for one in found if not any(other in found for other in one.iterancestors())]
    if len(outermost) != 1:
        return None
    [main] = outermost
    for around in tree.xpath(_AROUND):
        if any(one is main for one in around.iterancestors()):
            _drop(around)
    return main


def _drop(element: Any) -> None:
    element.drop_tree() if isinstance(element, html.HtmlElement) else element.getparent().remove(element)
