"""ZIP archives: the names of their members, each of which is a document of its own."""

import zipfile
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, cast

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import (
    Give,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    one_line,
    whole,
)
from groundline_extraction.readers.containers.members import MAX_MEMBERS, Members
from groundline_extraction.readers.zips import open_zip


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Return all of `read_pieces` at once, without the members."""
    return whole(read_pieces, data, hints, limits)


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Give a list of the members. Raises ReadError with ENCRYPTED_DOCUMENT if all of them are encrypted,
    CORRUPT_DOCUMENT or DOCUMENT_TOO_LARGE."""
    builder = MarkdownBuilder(limits)
    with open_zip(file, limits, with_encrypted=True) as archive:
        members = list(_members(archive))
        if members and all(_is_encrypted(member) for member in members):
            raise ReadError("ENCRYPTED_DOCUMENT", "the archive needs a password")
        builder.add("\n".join(f"- {one_line(member.filename)}" for member in members))
        give(builder.read())
    if hints.with_members:
        find_members(file, Members.of_document(limits, give))


def find_members(file: BinaryIO, members: Members) -> None:
    """Take the members of an archive. Raises ReadError."""
    with open_zip(file, members.limits, with_encrypted=True) as archive:
        for member in _members(archive):
            opened = partial(_opened, archive, member)
            members.take(member.filename, "", opened)


def _members(archive: zipfile.ZipFile) -> Iterator[zipfile.ZipInfo]:
    files = [member for member in archive.infolist() if not member.is_dir()]
    members = [member for member in files if not is_litter(member.filename)]
    if len(members) > MAX_MEMBERS:
        raise ReadError("DOCUMENT_TOO_LARGE", f"{len(members)} members; at most {MAX_MEMBERS} are taken")
    return iter(members)


def _opened(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> BinaryIO:
    if _is_encrypted(member):
        raise ReadError("ENCRYPTED_DOCUMENT", "the file needs a password")
    return cast("BinaryIO", archive.open(member))


def _is_encrypted(member: zipfile.ZipInfo) -> bool:
    return bool(member.flag_bits & 1)


def is_litter(name: str) -> bool:
    """Return whether a member is what operating systems leave in archives."""
    last = name.rpartition("/")[2]
    return name.startswith("__MACOSX/") or last in {".DS_Store", "Thumbs.db", "desktop.ini"}
