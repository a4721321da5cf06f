"""Comments on the cells of an XLSX sheet, which openpyxl leaves out when it reads row by row."""

import zipfile
from collections.abc import Iterator
from typing import Final

from lxml import etree
from openpyxl.utils.cell import coordinate_to_tuple

from groundline_extraction.readers.common import clean
from groundline_extraction.readers.office.relations import relations_of
from groundline_extraction.readers.office.sheets import Comments

_NOTES: Final = "comments"
_THREADS: Final = "threadedComment"


def comments_of(archive: zipfile.ZipFile, path: str) -> Comments:
    """Return the comments of a sheet by row and column, from 0. A thread stands for the note that Excel keeps
    beside it for programs that know no threads."""
    parts = dict(relations_of(archive, path).values())
    found: Comments = {}
    for kind, tag in ((_NOTES, "{*}comment"), (_THREADS, "{*}threadedComment")):
        of_kind: dict[tuple[int, int], list[str]] = {}
        if kind in parts:
            with archive.open(parts[kind]) as part:
                for _, element in etree.iterparse(part, tag=tag, resolve_entities=False):
                    row, column = coordinate_to_tuple(element.get("ref", "A1"))
                    text = " ".join(clean("".join(_texts(element))).split())
                    if text:
                        of_kind.setdefault((row - 1, column - 1), []).append(text)
                    element.clear()
        found |= {place: " / ".join(texts) for place, texts in of_kind.items()}
    return found


def _texts(element: etree._Element) -> Iterator[str]:
    for child in element.iter("{*}t", "{*}text"):
        # Readings of Japanese characters, not said twice.
        if child.text and not any(True for _ in child.iterancestors("{*}rPh")):
            yield child.text
