"""Compound files, in which the old formats of Microsoft Office keep named streams, by olefile."""

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import olefile  # type: ignore[import-untyped]

from groundline_extraction.readers.common import ReadError

OLE_MARK: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class CompoundFile:
    """Streams by their paths. All that are read together have at most the bytes of the file: streams of a
    sound file do not share any."""

    def __init__(self, data: bytes) -> None:
        """Open a file. Raises OSError and others if it is broken."""
        self._ole: Any = olefile.OleFileIO(io.BytesIO(data))
        self._left = len(data)
        self._paths = [tuple(path) for path in self._ole.listdir(streams=True, storages=True)]
        self._known = {"/".join(path).lower(): path for path in self._paths}

    def read(self, *path: str) -> bytes:
        """Return a stream; b"" if it is missing. Raises ReadError with CORRUPT_DOCUMENT."""
        found = self._known.get("/".join(path).lower())
        if found is None or self._ole.get_type(list(found)) != olefile.STGTY_STREAM:
            return b""
        self._left -= self._ole.get_size(list(found))
        if self._left < 0:
            raise ReadError("CORRUPT_DOCUMENT", "its streams overlap")
        return bytes(self._ole.openstream(list(found)).read())

    def below(self, path: Sequence[str], prefix: str) -> Iterator[str]:
        """Yield the names in a storage that begin with a prefix, in their order."""
        depth = len(path)
        for one in self._paths:
            if len(one) == depth + 1 and one[:depth] == tuple(path) and one[depth].startswith(prefix):
                yield one[depth]


def title_of(file: CompoundFile) -> str:
    """Return the title among the properties of a document (MS-OLEPS); "" if it has none."""
    summary = file.read("\x05SummaryInformation")
    try:
        [begin] = struct.unpack_from("<I", summary, 44)
        [count] = struct.unpack_from("<I", summary, begin + 4)
        entries = struct.iter_unpack("<II", summary[begin + 8 : begin + 8 + 8 * min(count, 100)])
        known = {kind: begin + at + 4 for kind, at in entries}
        page = struct.unpack_from("<H", summary, known[1])[0] if 1 in known else 1252
        [size] = struct.unpack_from("<I", summary, known[2])
        text = summary[known[2] + 4 :][: min(size, 1000)]
        return text.decode("utf-8" if page == 65001 else f"cp{page}").split("\0")[0].strip()
    except (struct.error, KeyError, LookupError, UnicodeDecodeError):
        return ""
