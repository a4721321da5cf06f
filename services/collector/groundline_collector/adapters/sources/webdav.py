"""Files of a folder on a WebDAV server (RFC 4918), with who may read them where it is said (RFC 3744)."""

import xml.etree.ElementTree as ET
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin, urlsplit

import urllib3
from pydantic import model_validator
from urllib3.exceptions import HTTPError

from groundline_collector.adapters.addresses import AddressNotAllowedError
from groundline_collector.adapters.sources.common import (
    INTERFACE_VERSION,
    TRANSIENT_STATUSES,
    FolderAddress,
    PluginSettings,
    Run,
    SourceKind,
    failure_of,
    host_of,
    refused,
    unreachable,
)
from groundline_collector.changes import (
    Change,
    Found,
    LoadedDocument,
    is_principal,
    not_had,
    reached,
    unreadable,
)

MAX_FOLDERS: Final = 100_000
_PART: Final = 1 << 20
_DAV: Final = "{DAV:}"
_ASKED: Final = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getetag/><getlastmodified/>'
    b"<getcontentlength/><getcontenttype/><displayname/>%s</prop></propfind>"
)
_OK: Final = 200
_MULTI_STATUS: Final = 207
_NO_SUCH_PROPERTY: Final = (404, 501)


class WebdavSettings(PluginSettings):
    """Settings of a source of the kind webdav."""

    url: FolderAddress
    """The folder, http or https, without credentials."""
    username: str = ""
    """User name. Empty, together with password_secret: without credentials."""
    password_secret: str = ""
    """Secret that holds the password."""
    acl: bool = True
    """Whether access control lists that the server has restrict who may read a document."""
    users_path: str = "/principals/users/"
    """Path of the server's users: the one of "ann" below it is the principal "user:ann"."""
    groups_path: str = "/principals/groups/"
    """Path of the server's groups: the one of "staff" below it is the principal "group:staff"."""

    @model_validator(mode="after")
    def _has_both_or_neither(self) -> "WebdavSettings":
        if bool(self.username) != bool(self.password_secret):
            raise ValueError("username and password_secret must be set together")
        return self


@dataclass(frozen=True, slots=True)
class _Resource:
    path: str
    """Path on the server, decoded."""
    values: dict[str, ET.Element]
    refused: frozenset[str]
    """Properties that the server has and does not give."""

    def text(self, name: str) -> str:
        value = self.values.get(name)
        return (value.text or "").strip() if value is not None else ""

    @property
    def is_folder(self) -> bool:
        kind = self.values.get("resourcetype")
        return kind is not None and kind.find(f"{_DAV}collection") is not None


def changes(run: Run) -> Generator[Change]:
    """Yield all files; a file's version is its ETag, or its time of change and size. Blocks.

    Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
    ADDRESS_NOT_ALLOWED): what a folder that is not shown has may be there still.
    """
    asked: WebdavSettings = run.asked
    pool, top = run.pool(), unquote(urlsplit(asked.url).path)
    headers = {"User-Agent": run.settings.user_agent}
    if (password := run.secret(asked.password_secret)) is not None:
        headers |= urllib3.util.make_headers(basic_auth=f"{asked.username}:{password}")
    try:
        folders, seen = [top], {top}
        while folders:
            for one in _listed(pool, asked, headers, folders.pop()):
                path = one.path.removeprefix(top)
                if one.is_folder:
                    folder = one.path if one.path.endswith("/") else f"{one.path}/"
                    if folder not in seen:
                        seen.add(folder)
                        folders.append(folder)
                    if len(seen) > MAX_FOLDERS:
                        raise refused(f"there are more than {MAX_FOLDERS} folders")
                elif run.takes(path):
                    yield _found(run, pool, headers, one, run.uri_prefix + path)
        yield reached("", is_complete=True)
    except (HTTPError, AddressNotAllowedError) as error:
        raise failure_of(error, host_of(asked.url)) from None
    finally:
        pool.clear()


def _found(run: Run, pool: urllib3.PoolManager, headers: dict[str, str], one: _Resource, uri: str) -> Change:
    asked, max_bytes = run.asked, run.start.max_document_bytes
    size = one.text("getcontentlength")
    if size.isascii() and size.isdigit() and int(size[:20]) > max_bytes:
        return unreadable(uri, "DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
    acl = one.values.get("acl") if asked.acl else None
    return Found(
        uri,
        _version(one),
        partial(_load, pool, headers, address_of(asked, one.path), uri, one),
        allowed_principals=None if acl is None else readers_in(acl, asked),
    )


def _version(one: _Resource) -> str:
    """Return the version that the server states; of what has none, one that is new at each run."""
    modified = one.text("getlastmodified")
    stated = f"{modified} {one.text('getcontentlength')}" if modified else ""
    return one.text("getetag") or stated or token_hex(8)


def address_of(asked: WebdavSettings, path: str) -> str:
    """Return the address of a path on the source's own server: joined to its URL, one that begins with "//"
    would lead elsewhere, and the password with it."""
    parts = urlsplit(asked.url)
    return f"{parts.scheme}://{parts.netloc}{quote(path)}"


def _listed(
    pool: urllib3.PoolManager, asked: WebdavSettings, headers: dict[str, str], folder: str
) -> Iterator[_Resource]:
    """Yield what is in a folder. Raises FailedPreconditionError (SOURCE_REFUSED), UnavailableError."""
    host = host_of(asked.url)
    response = pool.request(
        "PROPFIND",
        address_of(asked, folder),
        body=_ASKED % (b"<acl/>" if asked.acl else b""),
        headers={**headers, "Depth": "1", "Content-Type": "application/xml", "Accept-Encoding": "gzip"},
        redirect=False,
    )
    if response.status in TRANSIENT_STATUSES:
        raise unreachable(host)
    if response.status != _MULTI_STATUS:
        raise refused(f"{host} answered {response.status} for the folder {folder[:200]!r}")
    found = list(_resources(response.data, asked.url, host))
    if folder.rstrip("/") not in {one.path.rstrip("/") for one in found}:
        raise refused(f"{host} does not show the folder {folder[:200]!r} at its address")
    for one in found:
        if asked.acl and "acl" in one.refused:
            raise refused(f"{host} does not let this user read access control lists; see the setting acl")
        # A server cannot send the run, and the password with it, elsewhere.
        if one.path.startswith(folder) and one.path.rstrip("/") != folder.rstrip("/"):
            if ".." in one.path.split("/"):
                raise refused(f"{host} does not answer as a WebDAV server")
            yield one


def _resources(content: bytes, base: str, host: str) -> Iterator[_Resource]:
    try:
        if b"<!DOCTYPE" in content:
            raise ET.ParseError
        answer = ET.fromstring(content)  # noqa: S314 - bounded, and without entities
        for response in answer.iter(f"{_DAV}response"):
            place = urlsplit(urljoin(base, response.findtext(f"{_DAV}href", "").strip()))
            values, withheld = dict[str, ET.Element](), set[str]()
            for group in response.iter(f"{_DAV}propstat"):
                status = int(group.findtext(f"{_DAV}status", "").split()[1])
                found = {one.tag.removeprefix(_DAV): one for one in group.iterfind(f"{_DAV}prop/*")}
                if status == _OK:
                    values |= found
                elif status not in _NO_SUCH_PROPERTY:
                    withheld |= found.keys()
            if place.hostname == urlsplit(base).hostname:
                yield _Resource(unquote(place.path), values, frozenset(withheld))
    except (ET.ParseError, ValueError, IndexError):
        raise refused(f"{host} does not answer as a WebDAV server") from None


def readers_in(acl: ET.Element, asked: WebdavSettings) -> Sequence[str]:
    """Return the principals that an access control list lets read.

    What cannot be said by principals makes it narrower: anybody whom the server knows otherwise than as a
    user or group is left out; with an inverted entry, or a denial other than to all, nobody may read.
    """
    readers = dict[str, None]()
    for entry in acl.iterfind(f"{_DAV}ace"):
        reads = {one.tag for one in entry.iterfind(f"*/{_DAV}privilege/*")} & {f"{_DAV}read", f"{_DAV}all"}
        if not reads:
            continue
        principal = entry.find(f"{_DAV}principal")
        names: set[str] = set() if principal is None else {one.tag.removeprefix(_DAV) for one in principal}
        if entry.find(f"{_DAV}deny") is not None and names == {"all"}:
            break
        if entry.find(f"{_DAV}deny") is not None or principal is None:
            return ()
        if names & {"all", "authenticated"}:
            readers["*"] = None
        path = unquote(urlsplit(principal.findtext(f"{_DAV}href", "").strip()).path).rstrip("/")
        for kind, below in (("user", asked.users_path), ("group", asked.groups_path)):
            name = path.removeprefix(below)
            if path.startswith(below) and name and is_principal(f"{kind}:{name}"):
                readers[f"{kind}:{name}"] = None
    return tuple(readers)


def _load(
    pool: urllib3.PoolManager, headers: dict[str, str], url: str, uri: str, one: _Resource
) -> LoadedDocument:
    try:
        response = pool.request("GET", url, headers=headers, redirect=False, preload_content=False)
    except (HTTPError, AddressNotAllowedError) as error:
        raise failure_of(error, host_of(url)) from None
    if response.status != _OK:
        response.close()
        raise not_had("SOURCE_REFUSED", f"the server answered {response.status}")
    mime_type = one.text("getcontenttype").split(";", 1)[0].strip().lower()[:200]
    mime_type = "" if mime_type == "application/octet-stream" else mime_type
    return LoadedDocument(
        uri, _pieces(response, host_of(url)), title=one.text("displayname")[:500], mime_type=mime_type
    )


def _pieces(response: Any, host: str) -> Iterator[bytes]:
    try:
        yield from response.stream(_PART, decode_content=False)
    except HTTPError as error:
        raise failure_of(error, host) from None
    finally:
        response.close()
        response.release_conn()


KIND: Final = SourceKind(
    interface_version=INTERFACE_VERSION,
    changes=changes,
    settings=WebdavSettings,
    secret_host=lambda asked: host_of(asked.url),
)
