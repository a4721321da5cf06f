"""Files within files: attachments of mails, members of archives, and those within them in turn."""

import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO, Final

from groundline_extraction.formats import COMPRESSED, EML, MSG, TAR, ZIP, clean_type, type_of_file
from groundline_extraction.readers.common import (
    Give,
    MemberPart,
    Read,
    ReaderLimits,
    ReadError,
    one_line,
)
from groundline_extraction.texts import MEMBER_MARK

MAX_DEPTH: Final = 3
"""Maximum depth of files within files."""
MAX_MEMBERS: Final = 1000
"""Maximum files within one document, at all depths."""
MAX_WHOLE_BYTES: Final = 64 * 1024**2
"""Maximum size of a mail, and of an archive within another file: they are read in memory."""

_PART_BYTES: Final = 1 << 18
_MAX_NAME: Final = 300

type OpenFile = Callable[[], BinaryIO]
"""Opens a file anew, at its beginning."""


class _TooMuchError(ReadError):
    """All files together are too large."""


@dataclass(frozen=True, slots=True)
class Members:
    """Collector of the files within one, whose path is `container` ("" for the outermost), `depth` deep."""

    limits: ReaderLimits
    give: Give
    taken: "_Taken"
    container: str = ""
    depth: int = 1

    @classmethod
    def of_document(cls, limits: ReaderLimits, give: Give) -> "Members":
        return cls(limits, give, _Taken())

    def take(self, name: str, mime_type: str, open_file: OpenFile) -> None:
        """Give a file, or the reason why it is not read, and the files within it. Raises ReadError with
        DOCUMENT_TOO_LARGE if all together are more than is taken."""
        part = MemberPart(self._path(name), self.container)
        try:
            if self.depth > MAX_DEPTH:
                raise ReadError("DOCUMENT_TOO_LARGE", f"files within files more than {MAX_DEPTH} deep")
            found, part = _typed(part, mime_type, open_file)
            self._send(part, open_file)
        except _TooMuchError:
            raise
        except ReadError as error:
            self._refuse(part, error)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, ValueError, EOFError) as error:
            self._refuse(part, ReadError("CORRUPT_DOCUMENT", f"cannot be unpacked ({type(error).__name__})"))
        else:
            self._look_into(part.path, found, open_file)

    def _look_into(self, path: str, mime_type: str, open_file: OpenFile) -> None:
        # They read files through this class.
        from groundline_extraction.readers.containers import archive, mail, tar

        find = {
            EML: mail.find_members,
            MSG: mail.find_members,
            ZIP: archive.find_members,
            **dict.fromkeys((TAR, *COMPRESSED), tar.find_members),
        }.get(mime_type)
        if find is None:
            return
        with open_file() as file:
            data = file.read(MAX_WHOLE_BYTES + 1)
        if len(data) > MAX_WHOLE_BYTES:
            return
        try:
            find(io.BytesIO(data), replace(self, container=path, depth=self.depth + 1))
        except _TooMuchError:
            raise
        except ReadError:
            pass  # reported when it is read itself

    def _send(self, part: MemberPart, open_file: OpenFile) -> None:
        is_blank = True
        with open_file() as file:
            while data := file.read(_PART_BYTES):
                self.taken.size += len(data)
                if self.taken.size > self.limits.max_unpacked_bytes:
                    most = self.limits.max_unpacked_bytes
                    raise _TooMuchError(
                        "DOCUMENT_TOO_LARGE", f"the files within it have more than {most} bytes"
                    )
                is_blank = is_blank and not data.strip()
                self.give(Read("", members=[replace(part, data=data)]))
        if is_blank:
            raise ReadError("EMPTY_TEXT", "the file is empty")

    def _refuse(self, part: MemberPart, error: ReadError) -> None:
        self.give(Read("", members=[replace(part, reason=error.reason, message=error.message)]))

    def _path(self, name: str) -> str:
        """Return a path that no other file has; the second of two with one name is numbered."""
        self.taken.count += 1
        if self.taken.count > MAX_MEMBERS:
            raise _TooMuchError("DOCUMENT_TOO_LARGE", f"more than {MAX_MEMBERS} files within it")
        before = f"{self.container}{MEMBER_MARK}" if self.container else ""
        plain = PurePosixPath(_plain(name))
        paths = (
            f"{before}{plain if number == 1 else plain.with_stem(f'{plain.stem} ({number})')}"
            for number in range(1, MAX_MEMBERS + 1)
        )
        path = next(path for path in paths if path not in self.taken.paths)
        self.taken.paths.add(path)
        return path


class _Taken:
    """Totals so far, at all depths."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.paths = set[str]()


def _plain(name: str) -> str:
    """Return a name as a relative path without steps up; it is never opened."""
    parts = [part for part in one_line(name, _MAX_NAME).replace("\\", "/").split("/") if part.strip(". ")]
    # Separates a file from a file within it.
    return "/".join(part.rstrip("!") or "_" for part in parts) or "file"


def _typed(part: MemberPart, mime_type: str, open_file: OpenFile) -> tuple[str, MemberPart]:
    """Return the type of a file, and the file with the hints that hold for it. Raises ReadError."""
    said, charset = clean_type(mime_type)
    with open_file() as file:
        try:
            found = type_of_file(said, part.path, file, charset=charset)
        except ReadError:
            if not said:
                raise
            said = ""  # stated types are unreliable
            found = type_of_file(said, part.path, file, charset=charset)
    named = f"; charset={charset}" if charset else ""
    return found, replace(part, mime_type=f"{said or 'application/octet-stream'}{named}" if named else said)
