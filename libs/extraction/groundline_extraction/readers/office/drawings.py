"""Pictures on an XLSX sheet, which openpyxl leaves out when it reads row by row."""

import zipfile
from typing import Final

from groundline_extraction.readers.data.xml import parsed
from groundline_extraction.readers.office.relations import relations_of

_ANCHORS: Final = ("{*}twoCellAnchor", "{*}oneCellAnchor", "{*}absoluteAnchor")
_EMBED: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}embed"


def pictures_of(archive: zipfile.ZipFile, path: str) -> list[tuple[int, int, str]]:
    """Return the row and column, from 0, in which each picture on a sheet begins, and the picture's path, in
    the order of the cells."""
    found = []
    for kind, drawing in relations_of(archive, path).values():
        if kind != "drawing":
            continue
        related = relations_of(archive, drawing)
        for anchor in parsed(archive.read(drawing)).iter(*_ANCHORS):
            row, column = (int(anchor.findtext(f"{{*}}from/{{*}}{name}") or 0) for name in ("row", "col"))
            for blip in anchor.iter("{*}blip"):
                if (picture := related.get(blip.get(_EMBED, ""))) is not None:
                    found.append((row, column, picture[1]))
    return sorted(found)
