"""XML and SVG: their text, element by element."""

from typing import Any, Final

from lxml import etree

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import (
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    one_line,
)

_LEFT_OUT: Final = frozenset({"style", "script", "metadata", "path", "clipPath", "image"})


def parsed(data: bytes) -> Any:
    """Return the root element, without reading anything outside or expanding entities. Raises ReadError."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise ReadError("CORRUPT_DOCUMENT", f"not XML: {one_line(str(error), 200)}") from None


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read elements that hold text, as `path: text` if they are fields of a record, else as paragraphs.
    Raises ReadError with CORRUPT_DOCUMENT or DOCUMENT_TOO_LARGE."""
    root = parsed(data)
    builder = MarkdownBuilder(limits)
    title = next((_text(one) for one in root.iter() if _name(one) == "title" and _text(one)), "")
    if _name(root) == "svg":
        for element in root.iter():
            if _name(element) in {"title", "desc", "text"}:
                builder.paragraph(" ".join("".join(element.itertext()).split()))
        return builder.read(title=title)
    records = [child for child in root if isinstance(child.tag, str)]
    for record in records or [root]:
        builder.paragraph("\n".join(_fields(record, "", 0)))
    return builder.read(title=title)


def _fields(element: Any, path: str, depth: int) -> list[str]:
    name = _name(element)
    if name in _LEFT_OUT or not isinstance(element.tag, str) or depth > 100:
        return []
    here = f"{path}.{name}" if path else name
    children = [child for child in element if isinstance(child.tag, str)]
    is_prose = bool(children) and any((child.tail or "").strip() for child in children)
    lines = [
        f"{here}.{etree.QName(key).localname}: {one_line(value, 10_000)}"
        for key, value in element.attrib.items()
        if value.strip() and key != "id"
    ]
    if is_prose or not children:
        if text := " ".join("".join(element.itertext()).split()):
            lines.append(f"{here}: {text}")
        return lines
    if text := _text(element):
        lines.append(f"{here}: {text}")
    for child in children:
        lines += _fields(child, here if depth else name, depth + 1)
    return lines


def _name(element: Any) -> str:
    return str(etree.QName(element).localname) if isinstance(element.tag, str) else ""


def _text(element: Any) -> str:
    return " ".join((element.text or "").split())
