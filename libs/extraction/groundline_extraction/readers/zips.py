"""ZIP files, and formats built on them, within limits."""

import io
import struct
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, Final

from groundline_extraction.readers.common import ReaderLimits, ReadError

MAX_ENTRIES: Final = 10_000
"""Maximum number of members of a ZIP file; the directory of a larger one is not read."""
MAX_DIRECTORY_BYTES: Final = 4 * 1024**2

_MAX_END_BYTES: Final = 65_557 + 76
"""Maximum size of the record that ends the file, with a comment and ZIP64's record before it."""


def open_zip(file: BinaryIO, limits: ReaderLimits, *, with_encrypted: bool = False) -> zipfile.ZipFile:
    """Open an archive whose members unpack to no more than the limits allow: zipfile gives no more of a
    member than the directory declares.

    Raises ReadError with ENCRYPTED_DOCUMENT, unless members may be encrypted, CORRUPT_DOCUMENT or
    DOCUMENT_TOO_LARGE.
    """
    begin, end = _directory(file) or (0, 0)
    if end - begin > MAX_DIRECTORY_BYTES:
        raise ReadError("DOCUMENT_TOO_LARGE", f"its directory has more than {MAX_DIRECTORY_BYTES} bytes")
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound ZIP file ({type(error).__name__})") from None
    entries = archive.infolist()
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > limits.max_unpacked_bytes or len(entries) > MAX_ENTRIES:
        raise ReadError(
            "DOCUMENT_TOO_LARGE",
            f"unpacks to {unpacked} bytes in {len(entries)} parts; "
            f"at most {limits.max_unpacked_bytes} in {MAX_ENTRIES} are taken",
        )
    if not with_encrypted and any(entry.flag_bits & 1 for entry in entries):
        raise ReadError("ENCRYPTED_DOCUMENT", "the document needs a password")
    return archive


def zip_names(file: BinaryIO) -> Iterator[str]:
    """Yield the members' names by the directory, at most MAX_ENTRIES; none if the file is cut off or its
    directory is too large."""
    begin, end = _directory(file) or (0, 0)
    if end - begin > MAX_DIRECTORY_BYTES:
        return
    file.seek(begin)
    data = file.read(end - begin)
    at = 0
    for _ in range(MAX_ENTRIES):
        if at + 46 > len(data) or data[at : at + 4] != b"PK\x01\x02":
            return
        name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        yield data[at + 46 : at + 46 + name].decode("utf-8", "replace")
        at += 46 + name + extra + comment


def _directory(file: BinaryIO) -> tuple[int, int] | None:
    """Return begin and end of the directory, which stands before the record that ends the file."""
    before = max(0, file.seek(0, io.SEEK_END) - _MAX_END_BYTES)
    file.seek(before)
    data = file.read()
    end = data.rfind(b"PK\x05\x06")
    if end < 0 or len(data) - end < 22:
        return None
    size = struct.unpack_from("<I", data, end + 12)[0]
    if end >= 76 and data[end - 20 : end - 16] == b"PK\x06\x07":  # ZIP64
        end -= 20 + 56
        if data[end : end + 4] != b"PK\x06\x06":
            return None
        size = struct.unpack_from("<Q", data, end + 40)[0]
    end += before
    return (end - size, end) if end - size >= 0 else None
