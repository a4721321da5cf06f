"""EPUB: the chapters in the order of the book."""

import io
import posixpath
from typing import Final
from urllib.parse import unquote
from zipfile import ZipFile

from lxml import html

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError, parsing
from groundline_extraction.readers.data.xml import parsed
from groundline_extraction.readers.images.pictures import picture_text, record_picture
from groundline_extraction.readers.web.markup import add_markup
from groundline_extraction.readers.zips import open_zip

_NAMES: Final = {
    "c": "urn:oasis:names:tc:opendocument:xmlns:container",
    "o": "http://www.idpf.org/2007/opf",
    "d": "http://purl.org/dc/elements/1.1/",
}


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read the chapters in the order of the spine. Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT
    or DOCUMENT_TOO_LARGE."""
    with open_zip(io.BytesIO(data), limits) as archive, parsing("a sound EPUB"):
        return _read(archive, hints, limits)


def _read(archive: ZipFile, hints: Hints, limits: ReaderLimits) -> Read:
    names = set(archive.namelist())
    if "META-INF/encryption.xml" in names and "META-INF/rights.xml" in names:
        raise ReadError("ENCRYPTED_DOCUMENT", "the book is protected")
    container = parsed(archive.read("META-INF/container.xml"))
    package_path = container.xpath("//c:rootfile/@full-path", namespaces=_NAMES)[0]
    package = parsed(archive.read(package_path))
    folder = posixpath.dirname(package_path)
    items = {
        item.get("id"): item.get("href") for item in package.xpath("//o:manifest/o:item", namespaces=_NAMES)
    }
    builder = MarkdownBuilder(limits, with_pictures=hints.with_pictures)
    for reference in package.xpath("//o:spine/o:itemref/@idref", namespaces=_NAMES):
        path = posixpath.normpath(posixpath.join(folder, unquote(items.get(reference) or "")))
        if path not in names:
            continue
        chapter = html.fromstring(archive.read(path), parser=html.HTMLParser(encoding="utf-8"))

        def picture(src: str, path: str = path) -> str:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(src)))
            if target not in names:
                return ""
            data = archive.read(target)
            record_picture(builder, data, limits)
            return picture_text(data, limits)

        body = chapter.find("body")
        add_markup(builder, chapter if body is None else body, picture=picture)

    def said(name: str) -> str:
        return "; ".join(package.xpath(f"//o:metadata/d:{name}/text()", namespaces=_NAMES))

    return builder.read(title=said("title"), metadata={"author": said("creator")})
