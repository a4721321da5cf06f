"""HTML as Markdown: the main content as the page marks it, else as trafilatura finds it."""

import io
import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, BinaryIO, Final

import trafilatura
from lxml import etree, html
from trafilatura.settings import DEFAULT_CONFIG

from groundline_extraction.encoding import decoded_file
from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import (
    Give,
    Hints,
    PicturePart,
    Read,
    ReaderLimits,
    ReadError,
    clean,
    one_line,
    whole,
)
from groundline_extraction.readers.images.pictures import embedded_pictures
from groundline_extraction.readers.web.content import without_surroundings
from groundline_extraction.readers.web.long_html import read_long
from groundline_extraction.readers.web.markup import add_markup

MAX_WHOLE_BYTES: Final = 8 * 1024**2
"""Maximum size read as a tree, which takes ten times its size, and by trafilatura."""

_CONFIG: Final = deepcopy(DEFAULT_CONFIG)
# Its default of 250 characters gives up the structure of short pages.
_CONFIG["DEFAULT"]["MIN_EXTRACTED_SIZE"] = "20"
_DECLARED: Final = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,50})", re.IGNORECASE)
_XML_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]*\?>")
_MAIN: Final = "//main | //*[@role='main'] | //article"
# Elements of navigation, advertisements and imprints.
_AROUND: Final = (
    "//nav | //aside | //footer | //header[not(ancestor::main or ancestor::article)] | //form | "
    "//*[@role='navigation' or @role='banner' or @role='contentinfo' or @role='complementary']"
)
# Marks with which Sphinx, MkDocs and the like link to a heading.
_PERMALINKS: Final = (
    "//a[normalize-space()='\u00b6' or contains(concat(' ', normalize-space(@class), ' '), ' headerlink ')]"
)
# A page made of tables of data, or a letter: all of it is content.
_IS_PAGE: Final = (
    "//nav | //header | //footer | //aside | //script[@src] | //link[@rel='stylesheet'] | //form"
)


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Return all of `read_pieces` at once."""
    return whole(read_pieces, data, hints, limits)


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Give the main content, or all of the text if it cannot be told apart. Raises ReadError."""
    is_long = file.seek(0, io.SEEK_END) > MAX_WHOLE_BYTES
    charset = _charset(file, hints.charset)
    if is_long:
        read_long(lambda: decoded_file(file, charset=charset), hints, limits, give)
    else:
        give(_read("".join(decoded_file(file, charset=charset)), hints, limits))


def _read(text: str, hints: Hints, limits: ReaderLimits) -> Read:
    tree = _tree(text)
    title = one_line(tree.findtext(".//title") or "")
    if (main := _main_content(tree)) is None:
        found = trafilatura.extract(tree, include_comments=False, favor_recall=True, config=_CONFIG)
        if found and (main := tree.find(".//body")) is not None:
            without_surroundings(main, found)
    pictures: Sequence[PicturePart] = ()
    if main is not None:
        builder = MarkdownBuilder(limits, with_pictures=hints.with_pictures)
        add_markup(builder, main, picture=embedded_pictures(builder, limits))
        read = builder.read(title=title)
        if read.text:
            return read
        pictures = read.pictures
    return Read(clean(trafilatura.html2txt(tree) or ""), title=title, pictures=pictures)


def _charset(file: BinaryIO, charset: str) -> str:
    """Return the charset that the sender or the page names, if the text is valid in it."""
    file.seek(0)
    declared = _DECLARED.search(file.read(2048))
    said = charset or (declared[1].decode() if declared else "")
    try:
        for _ in decoded_file(file, charset=said):
            pass
    except ReadError:
        return ""  # stated charsets are unreliable
    return said


def _tree(text: str) -> Any:
    # A declaration in a text whose encoding is known is an error to lxml.
    text = _XML_DECLARATION.sub("", text)
    try:
        tree: Any = html.document_fromstring(text, parser=html.HTMLParser(huge_tree=True))
    except etree.ParserError:
        return html.document_fromstring("<html></html>")  # it has no element
    except ValueError:
        raise ReadError("CORRUPT_DOCUMENT", "no HTML could be read") from None
    for permalink in tree.xpath(_PERMALINKS):
        _drop(permalink)
    return tree


def _main_content(tree: Any) -> Any:
    """Return the element that the page marks as its main content, or the body if it has nothing else; None if
    neither can be told."""
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
