"""Mails of an account on an IMAP server."""

import imaplib
import socket
import ssl
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from functools import partial
from itertools import batched, chain
from typing import Any, Final

from groundline_runtime.errors import UnavailableError
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientAbortError, IMAPClientError, LoginError

from groundline_collector.adapters.addresses import AddressNotAllowedError, checked_address
from groundline_collector.adapters.sources.common import (
    CONNECT_SECONDS,
    INTERFACE_VERSION,
    Run,
    SourceKind,
    not_allowed,
    refused,
    unreachable,
)
from groundline_collector.adapters.sources.mail import (
    MAX_HEADER_BYTES,
    SeenMails,
    mail_document,
    mail_path,
    state_of,
)
from groundline_collector.changes import Change, Found, LoadedDocument, not_had, reached, unreadable

TLS_PORT: Final = 993
STARTTLS_PORT: Final = 143
MAX_ANSWER_BYTES: Final = 64 * 1024**2
"""Maximum bytes of a server's answer to one command."""
MAX_FOLDERS: Final = 10_000
LISTED_AT_ONCE: Final = 50_000
"""Maximum UIDs of one answer, which is a line: imaplib accepts up to 1,000,000 characters."""
NAMED_AT_ONCE: Final = 500
"""Maximum mails whose Message-IDs are requested by one command."""
_PART: Final = 4 * 1024**2
_ID: Final = "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]"
# Flags of folders by RFC 3501 and RFC 6154.
_CLOSED: Final = {b"\\noselect", b"\\nonexistent"}
_UNWANTED: Final = {b"\\drafts", b"\\junk", b"\\trash"}
_STATUS: Final = ("UIDVALIDITY", "UIDNEXT", "MESSAGES")


def changes(run: Run) -> Generator[Change]:
    """Yield all mails of the folders, by their Message-IDs, a mail's version being its size and the first
    folder that it is in; nothing where UIDVALIDITY, UIDNEXT and the number of mails of every folder are the
    cursor's. Blocks.

    So a folder whose UIDVALIDITY has changed costs its Message-IDs, and none of its mails is ingested again.
    The connection is closed at the end. Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError
    (SOURCE_REFUSED, ADDRESS_NOT_ALLOWED).
    """
    max_bytes = run.start.max_document_bytes
    with _failures_named(run.source.imap.host):
        account = _Account(run)
        try:
            folders = account.folders()
            state = state_of(map(astuple, folders))
            if state == run.start.cursor:
                return
            seen = SeenMails()
            for folder in folders:
                for name, uid, size in account.mails(folder):
                    if not seen.is_new(name):
                        continue
                    uri = run.uri_prefix + name
                    if size > max_bytes:
                        yield unreadable(uri, "DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
                        continue
                    load = partial(_load, account, folder, uid, uri)
                    yield Found(uri, f"{size} {folder.path}", load)
            yield reached(state, is_complete=True)
        finally:
            account.close()


def _load(account: "_Account", folder: "_Folder", uid: int, uri: str) -> LoadedDocument:
    pieces = account.pieces(folder, uid)
    first = next(pieces, b"")
    return mail_document(chain([first], pieces), first, uri=uri, folder=folder.path)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder and the values that change with its mails. `path`: its name with "/" between the folders it is
    in."""

    name: str
    path: str
    uid_validity: int
    next_uid: int
    count: int


class _Account:
    """A connection that has logged in. It is used by one thread at a time; folders are only read."""

    def __init__(self, run: Run) -> None:
        imap = run.source.imap
        self._run = run
        self._selected: _Folder | None = None
        self._client = _Client(run)
        try:
            if imap.starttls:
                self._client.starttls(self._client.ssl_context)
            self._client.login(imap.username, run.secret(imap.password_secret))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with suppress(Exception):
            self._client.shutdown()

    def folders(self) -> Sequence[_Folder]:
        """Return the folders that the source selects, by name."""
        found = self._client.list_folders()
        if len(found) > MAX_FOLDERS:
            raise refused(f"there are more than {MAX_FOLDERS} folders")
        taken = []
        for flags, separator, name in found:
            marks = {flag.lower() for flag in flags}
            path = name.replace(separator.decode(), "/") if separator else name
            is_unwanted = not self._run.source.include_paths and marks & _UNWANTED
            if marks & _CLOSED or is_unwanted or not self._run.takes(path):
                continue
            status = self._client.folder_status(name, _STATUS)
            taken.append(_Folder(name, path, *(int(status[item.encode()]) for item in _STATUS)))
        return sorted(taken, key=lambda folder: folder.name)

    def mails(self, folder: _Folder) -> Iterator[tuple[str, int, int]]:
        """Yield the name, UID and size in bytes of each mail."""
        for start in range(1, folder.next_uid, LISTED_AT_ONCE):
            self._select(folder)
            asked = ["UID", f"{start}:{min(start + LISTED_AT_ONCE, folder.next_uid) - 1}"]
            for uids in batched(sorted(self._client.search(asked)), NAMED_AT_ONCE):
                for uid, said in self._fetch(folder, uids, [_ID, "RFC822.SIZE"]).items():
                    header = _body(said)
                    if not header.strip():  # without a Message-ID
                        header = self._one(folder, uid, f"BODY.PEEK[HEADER]<0.{MAX_HEADER_BYTES}>")
                    yield mail_path(header), uid, int(said.get(b"RFC822.SIZE", 0))

    def pieces(self, folder: _Folder, uid: int) -> Iterator[bytes]:
        """Yield the mail, piece by piece. Raises IngestionError where it has gone."""
        start, piece = 0, b""
        while start == 0 or len(piece) == _PART:
            with _failures_named(self._run.source.imap.host):
                piece = self._one(folder, uid, f"BODY.PEEK[]<{start}.{_PART}>")
            yield piece
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
        # A server may report other mails as well.
        return {uid: answers[uid] for uid in uids if uid in answers}

    def _select(self, folder: _Folder) -> None:
        """Open the folder, unless it is open. Raises UnavailableError if its UIDs have changed."""
        if self._selected == folder:
            return
        self._selected = None
        found = self._client.select_folder(folder.name, readonly=True).get(b"UIDVALIDITY")
        if found != folder.uid_validity:
            raise UnavailableError("SOURCE_UNREACHABLE", "a folder was renewed while it was read")
        self._selected = folder


class _Client(IMAPClient):  # type: ignore[misc]  # is not typed
    """Client that connects to a checked address."""

    def __init__(self, run: Run) -> None:
        self._run = run
        imap = run.source.imap
        super().__init__(
            imap.host,
            imap.port or (STARTTLS_PORT if imap.starttls else TLS_PORT),
            ssl=not imap.starttls,
            ssl_context=ssl.create_default_context(),
            timeout=CONNECT_SECONDS,
        )

    def _create_IMAP4(self) -> imaplib.IMAP4:  # noqa: N802 - is called so there
        context = self.ssl_context if self.ssl else None
        return _Connection(self._run, self.host, self.port, context)


class _Connection(imaplib.IMAP4):
    """Connection to a checked address, whose answers are bounded."""

    def __init__(self, run: Run, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Connect; `context` encrypts from the beginning."""
        self._run = run
        self._context = context
        self._left = MAX_ANSWER_BYTES
        super().__init__(host, port, timeout=CONNECT_SECONDS)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        address = checked_address(self.host, self.port, private_addresses=self._run.private_addresses)
        plain = socket.create_connection((address, self.port), timeout)
        self._run.thread.connections.hold(self, plain)
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
    """Raise the errors of Sources. The server's text is left out: it may quote mails."""
    try:
        yield
    except AddressNotAllowedError as error:
        raise not_allowed(error) from None
    except ssl.SSLCertVerificationError:
        raise refused(f"the certificate of {host} is not valid") from None
    except LoginError:
        raise refused(f"{host} refuses the user name or the password") from None
    except (IMAPClientAbortError, OSError):
        raise unreachable(host) from None
    except IMAPClientError:
        raise refused(f"{host} refuses a command, or its answer is not IMAP") from None


def _body(said: dict[bytes, Any]) -> bytes:
    """Return the one part of a mail that was requested."""
    for name, value in said.items():
        if name.startswith(b"BODY[") and isinstance(value, bytes):
            return value
    return b""


KIND: Final = SourceKind(
    interface_version=INTERFACE_VERSION, changes=changes, secret_host=lambda imap: imap.host
)
