"""Mails of an account on an IMAP server."""

import imaplib
import socket
import ssl
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from functools import partial
from itertools import batched
from pathlib import Path
from typing import Any, Final

from groundline.v1 import source_pb2
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientAbortError, IMAPClientError, LoginError

from groundline_ingestor.adapters.addresses import AddressNotAllowedError, checked_address
from groundline_ingestor.adapters.sources.common import (
    CONNECT_SECONDS,
    content_of,
    not_had,
    refused,
    unreachable,
)
from groundline_ingestor.adapters.sources.mail import (
    MAX_HEADER_BYTES,
    SeenMails,
    mail_document,
    mail_path,
    state_of,
)
from groundline_ingestor.domain.documents import GivenDocument
from groundline_ingestor.domain.sources import Change, Found, Reached, Unreadable, takes_path, uri_prefix

__all__ = ["imap_changes"]

TLS_PORT: Final = 993
STARTTLS_PORT: Final = 143
MAX_ANSWER_BYTES: Final = 64 * 1024**2
"""Of what the server says to one command."""
MAX_FOLDERS: Final = 10_000
LISTED_AT_ONCE: Final = 50_000
"""UIDs of one answer, which is a line: imaplib takes up to 1,000,000 characters."""
NAMED_AT_ONCE: Final = 500
"""Mails whose Message-IDs are asked for in one command."""
_PART: Final = 4 * 1024**2
_ID: Final = "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]"
# Flags of folders by RFC 3501 and RFC 6154.
_CLOSED: Final = {b"\\noselect", b"\\nonexistent"}
_UNWANTED: Final = {b"\\drafts", b"\\junk", b"\\trash"}
_STATUS: Final = ("UIDVALIDITY", "UIDNEXT", "MESSAGES")


def imap_changes(
    source: source_pb2.DocumentSource,
    *,
    cursor: str,
    password: str,
    private_addresses: bool,
    max_bytes: int,
    spool: Path | None,
) -> Generator[Change]:
    """All mails of the folders, by their Message-IDs, a mail's version being its size and the first folder
    that it is in; nothing where UIDVALIDITY, UIDNEXT and the number of mails of every
    folder are the cursor's. Blocks.

    So a folder whose UIDVALIDITY has changed costs its Message-IDs, and none of its mails is ingested again.
    The connection is closed at the end. Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError
    (SOURCE_REFUSED, ADDRESS_NOT_ALLOWED).
    """
    with _failures_named(source.imap.host):
        account = _Account(source.imap, password, private_addresses=private_addresses)
        try:
            folders = account.folders(source)
            state = state_of(map(astuple, folders))
            if state == cursor:
                return
            prefix, seen = uri_prefix(source), SeenMails()
            for folder in folders:
                for name, uid, size in account.mails(folder):
                    if not seen.is_new(name):
                        continue
                    uri = prefix + name
                    if size > max_bytes:
                        yield Unreadable(uri, "DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
                        continue
                    load = partial(_load, account, folder, uid, uri=uri, max_bytes=max_bytes, spool=spool)
                    yield Found(uri, f"{size} {folder.path}", load)
            yield Reached(state, is_complete=True)
        finally:
            account.close()


def _load(
    account: "_Account", folder: "_Folder", uid: int, *, uri: str, max_bytes: int, spool: Path | None
) -> GivenDocument:
    with _failures_named(account.host):
        content = content_of(account.parts(folder, uid), max_bytes=max_bytes, directory=spool)
    return mail_document(content, uri=uri, folder=folder.path)


@dataclass(frozen=True)
class _Folder:
    """A folder and what changes with its mails. `path`: its name with "/" between the folders it is in."""

    name: str
    path: str
    uid_validity: int
    next_uid: int
    count: int


class _Account:
    """A connection that has logged in. It is used by one thread at a time; folders are only read."""

    def __init__(self, imap: source_pb2.ImapSource, password: str, *, private_addresses: bool) -> None:
        self.host = imap.host
        self._selected: _Folder | None = None
        self._client = _Client(imap, private_addresses=private_addresses)
        try:
            if imap.starttls:
                self._client.starttls(self._client.ssl_context)
            self._client.login(imap.username, password)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with suppress(Exception):
            self._client.shutdown()

    def folders(self, source: source_pb2.DocumentSource) -> Sequence[_Folder]:
        """Those that the source takes, by name."""
        found = self._client.list_folders()
        if len(found) > MAX_FOLDERS:
            raise refused(f"there are more than {MAX_FOLDERS} folders")
        taken = []
        for flags, separator, name in found:
            marks = {flag.lower() for flag in flags}
            path = name.replace(separator.decode(), "/") if separator else name
            is_unwanted = not source.include_paths and marks & _UNWANTED
            if marks & _CLOSED or is_unwanted or not takes_path(source, path):
                continue
            status = self._client.folder_status(name, _STATUS)
            taken.append(_Folder(name, path, *(int(status[item.encode()]) for item in _STATUS)))
        return sorted(taken, key=lambda folder: folder.name)

    def mails(self, folder: _Folder) -> Iterator[tuple[str, int, int]]:
        """The name, UID and size in bytes of each mail."""
        for start in range(1, folder.next_uid, LISTED_AT_ONCE):
            self._select(folder)
            asked = ["UID", f"{start}:{min(start + LISTED_AT_ONCE, folder.next_uid) - 1}"]
            for uids in batched(sorted(self._client.search(asked)), NAMED_AT_ONCE):
                for uid, said in self._fetch(folder, uids, [_ID, "RFC822.SIZE"]).items():
                    header = _body(said)
                    if not header.strip():  # without a Message-ID
                        header = self._one(folder, uid, f"BODY.PEEK[HEADER]<0.{MAX_HEADER_BYTES}>")
                    yield mail_path(header), uid, int(said.get(b"RFC822.SIZE", 0))

    def parts(self, folder: _Folder, uid: int) -> Iterator[bytes]:
        """The mail, piece by piece. Raises IngestionError where it has gone."""
        start, part = 0, b""
        while start == 0 or len(part) == _PART:
            part = self._one(folder, uid, f"BODY.PEEK[]<{start}.{_PART}>")
            yield part
            start += _PART

    def _one(self, folder: _Folder, uid: int, item: str) -> bytes:
        found = self._fetch(folder, [uid], [item])
        if uid not in found:
            raise not_had("SOURCE_REFUSED", "it has gone since it was listed")
        return _body(found[uid])

    def _fetch(
        self, folder: _Folder, uids: Sequence[int], items: Sequence[str]
    ) -> dict[int, dict[bytes, Any]]:
        self._select(folder)
        answers: dict[int, dict[bytes, Any]] = self._client.fetch(list(uids), list(items))
        # A server may speak of other mails as well.
        return {uid: answers[uid] for uid in uids if uid in answers}

    def _select(self, folder: _Folder) -> None:
        """Open the folder, unless it is open. Raises UnavailableError where its UIDs are others by now."""
        if self._selected == folder:
            return
        self._selected = None
        found = self._client.select_folder(folder.name, readonly=True).get(b"UIDVALIDITY")
        if found != folder.uid_validity:
            raise UnavailableError("SOURCE_UNREACHABLE", "a folder was renewed while it was read")
        self._selected = folder


class _Client(IMAPClient):  # type: ignore[misc]  # is not typed
    """Connects to an address that was checked."""

    def __init__(self, imap: source_pb2.ImapSource, *, private_addresses: bool) -> None:
        self._private_addresses = private_addresses
        super().__init__(
            imap.host,
            imap.port or (STARTTLS_PORT if imap.starttls else TLS_PORT),
            ssl=not imap.starttls,
            ssl_context=ssl.create_default_context(),
            timeout=CONNECT_SECONDS,
        )

    def _create_IMAP4(self) -> imaplib.IMAP4:  # noqa: N802 - is called so there
        context = self.ssl_context if self.ssl else None
        return _Connection(self.host, self.port, context, private_addresses=self._private_addresses)


class _Connection(imaplib.IMAP4):
    """To an address that was checked, and with answers that are not endless."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, *, private_addresses: bool
    ) -> None:
        """`context`: encrypts from the beginning."""
        self._context = context
        self._private_addresses = private_addresses
        self._left = MAX_ANSWER_BYTES
        super().__init__(host, port, timeout=CONNECT_SECONDS)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        address = checked_address(self.host, self.port, private_addresses=self._private_addresses)
        plain = socket.create_connection((address, self.port), timeout)
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise

    def _command(self, name: str, *arguments: Any) -> bytes:
        self._left = MAX_ANSWER_BYTES
        answered: bytes = super()._command(name, *arguments)  # type: ignore[misc]
        return answered

    def read(self, size: int) -> bytes:
        self._take(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._take(len(line))
        return line

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self.error(f"an answer of more than {MAX_ANSWER_BYTES} bytes")


@contextmanager
def _failures_named(host: str) -> Iterator[None]:
    """Raise what Connectors raise. What the server says is left out: it may quote mails."""
    try:
        yield
    except AddressNotAllowedError as error:
        raise FailedPreconditionError("ADDRESS_NOT_ALLOWED", str(error)) from None
    except ssl.SSLCertVerificationError:
        raise refused(f"the certificate of {host} is not valid") from None
    except LoginError:
        raise refused(f"{host} refuses the user name or the password") from None
    except (IMAPClientAbortError, OSError):
        raise unreachable(host) from None
    except IMAPClientError:
        raise refused(f"{host} refuses a command, or its answer is not IMAP") from None


def _body(said: dict[bytes, Any]) -> bytes:
    """The one part of a mail that was asked for."""
    for name, value in said.items():
        if name.startswith(b"BODY[") and isinstance(value, bytes):
            return value
    return b""
