"""ZIP archives: each member a section under its name."""

import io
import zipfile
import zlib
from typing import Final

from groundline_ingestor.adapters.extraction.readers.building import MarkdownBuilder
from groundline_ingestor.adapters.extraction.readers.common import Hints, Read, ReaderLimits, ReadError
from groundline_ingestor.adapters.extraction.readers.members import read_member
from groundline_ingestor.adapters.extraction.zips import open_zip

__all__ = ["read"]

MAX_MEMBERS: Final = 1000


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Members that cannot be read are named at the end, with the reason.

    Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT, DOCUMENT_TOO_LARGE, or that of a member where
    none can be read.
    """
    builder = MarkdownBuilder(limits)
    failures: list[tuple[str, ReadError]] = []
    with open_zip(io.BytesIO(data), limits) as archive:
        files = (member for member in archive.infolist() if not member.is_dir())
        members = [member for member in files if not _is_litter(member.filename)]
        if len(members) > MAX_MEMBERS:
            raise ReadError("DOCUMENT_TOO_LARGE", f"{len(members)} members; at most {MAX_MEMBERS} are taken")
        for member in members:
            try:
                read = read_member(_unpacked(archive, member), member.filename, "", hints, limits)
            except ReadError as error:
                failures.append((member.filename, error))
                continue
            builder.heading(1, member.filename)
            builder.include(read, below=1)
    if failures and len(failures) == len(members):
        raise failures[0][1]
    if failures:
        builder.paragraph("\n".join(f"Not read: {name} ({error.reason})" for name, error in failures))
    return builder.read()


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    try:
        return archive.read(member)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, ValueError, EOFError) as error:
        raise ReadError("CORRUPT_DOCUMENT", f"cannot be unpacked ({type(error).__name__})") from None


def _is_litter(name: str) -> bool:
    """What systems leave in archives."""
    last = name.rpartition("/")[2]
    return name.startswith("__MACOSX/") or last in {".DS_Store", "Thumbs.db", "desktop.ini"}
