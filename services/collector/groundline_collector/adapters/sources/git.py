"""Files of a branch of a git repository, over HTTP."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from dulwich.client import HTTPUnauthorized, Urllib3HttpGitClient
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository
from dulwich.objects import Blob, Commit, ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo
from groundline.v1 import source_pb2
from groundline_contracts import default_of
from groundline_runtime.errors import GroundlineError
from urllib3.exceptions import HTTPError

from groundline_collector.adapters.addresses import AddressNotAllowedError
from groundline_collector.adapters.sources.common import (
    INTERFACE_VERSION,
    Run,
    SourceKind,
    host_of,
    not_allowed,
    refused,
    unreachable,
)
from groundline_collector.adapters.sources.packs import require_bounded
from groundline_collector.changes import Change, Found, LoadedDocument, not_had, reached

MAX_PACK_BYTES: Final = 4 * 1024**3
"""Maximum bytes of one commit's files, compressed."""
MAX_REFERENCES_BYTES: Final = 16 * 1024**2
"""Maximum bytes of what a server says of its branches, which are kept in memory."""
FETCH_SECONDS: Final = 3600.0
"""Maximum time of a fetch, in seconds."""
_USERNAME: Final[str] = default_of(source_pb2.GitSource, "username")
_HEAD: Final = Ref(b"HEAD")
_FILE_TYPES: Final = 0o170000
_REGULAR: Final = 0o100000


def changes(run: Run) -> Generator[Change]:
    """Yield all files of the branch's last commit, a file's version being its blob's id; nothing where the
    cursor, which is a commit's id, is that commit's. Blocks.

    The commit is fetched without its history into a temporary folder: replicas share no disk.

    Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
    ADDRESS_NOT_ALLOWED).
    """
    git, pool = run.source.git, run.pool()
    parts = urlsplit(git.url)
    password = run.secret(git.password_secret)
    username = (git.username or _USERNAME) if password is not None else None
    client = _BoundedClient(
        f"{parts.scheme}://{parts.netloc}/",
        pool_manager=pool,
        username=username,
        password=password,
        quiet=True,
    )
    folder = Path(tempfile.mkdtemp(prefix="groundline-git-", dir=run.settings.spool_directory))
    try:
        # Servers of the second version of the protocol name no other.
        wanted = Ref(b"refs/heads/" + git.branch.encode()) if git.branch else _HEAD
        head = client.get_refs(parts.path, ref_prefix=[wanted]).refs.get(wanted)
        if head is None:
            raise refused(
                f"the repository has no branch {git.branch!r}" if git.branch else "the repository is empty"
            )
        state = f"{head.decode()} {git.branch}"
        if state == run.start.cursor:
            return
        repository = Repo.init_bare(str(folder))
        try:
            _fetch(client, parts.path, repository, wanted, head)
            commit = repository.object_store[head]
            if not isinstance(commit, Commit):
                raise refused("the branch leads to no commit")
            yield from _files(run, repository, commit)
            yield reached(state, is_complete=True)
        finally:
            repository.close()
    except GroundlineError:
        raise
    except AddressNotAllowedError as error:
        raise not_allowed(error) from None
    except (HTTPUnauthorized, NotGitRepository):
        raise refused("the server knows no such repository, or not for these credentials") from None
    except (HTTPError, HangupException):
        raise unreachable(host_of(git.url)) from None
    except (GitProtocolError, KeyError, ValueError):
        raise refused("the server does not answer as a git repository") from None
    finally:
        pool.clear()
        shutil.rmtree(folder, ignore_errors=True)


class _BoundedClient(Urllib3HttpGitClient):
    """Client that reads no more references than fit; a pack is bounded as it is written."""

    def _http_request(
        self,
        url: str,
        headers: dict[str, str] | None = None,
        data: Any = None,
        raise_for_status: bool = True,
    ) -> tuple[Any, Callable[[int], bytes]]:
        response, read = super()._http_request(url, headers, data, raise_for_status)
        if data is not None and not (isinstance(data, bytes) and b"command=ls-refs" in data):
            return response, read
        left = MAX_REFERENCES_BYTES

        def read_bounded(size: int) -> bytes:
            nonlocal left
            part = read(size)
            left -= len(part)
            if left < 0:
                raise refused(f"the repository's references have more than {MAX_REFERENCES_BYTES} bytes")
            return part

        return response, read_bounded


def _fetch(client: _BoundedClient, path: str, repository: Repo, wanted: Ref, head: ObjectID) -> None:
    pack, commit, abort = repository.object_store.add_pack()
    size = 0
    end = time.monotonic() + FETCH_SECONDS

    def write(data: bytes) -> int:
        nonlocal size
        size += len(data)
        if size > MAX_PACK_BYTES:
            raise refused(f"the commit has more than {MAX_PACK_BYTES} bytes")
        if time.monotonic() > end:
            raise refused(f"fetching the commit took more than {FETCH_SECONDS:g} seconds")
        return pack.write(data)

    try:
        client.fetch_pack(
            path,
            lambda refs, depth=None: [head],
            repository.get_graph_walker(),
            write,
            depth=1,
            ref_prefix=[wanted],
        )
        pack.flush()
        require_bounded(pack)
        pack.seek(0, os.SEEK_END)
    except BaseException:
        abort()
        raise
    commit()


def _files(run: Run, repository: Repo, commit: Commit) -> Generator[Change]:
    below = run.source.git.path.strip("/")
    below = f"{below}/" if below else ""
    for entry in repository.object_store.iter_tree_contents(commit.tree):
        name = entry.path.decode("utf-8", "replace")
        path = name.removeprefix(below)
        # Neither links nor submodules.
        is_file = entry.mode & _FILE_TYPES == _REGULAR
        if is_file and name.startswith(below) and run.takes(path):
            uri = run.uri_prefix + path
            load = partial(_load, repository, entry.sha, uri, run.start.max_document_bytes)
            yield Found(uri, entry.sha.decode(), load)


def _load(repository: Repo, sha: ObjectID, uri: str, max_bytes: int) -> LoadedDocument:
    blob = repository.object_store[sha]
    if not isinstance(blob, Blob):
        raise not_had("SOURCE_REFUSED", "it is not a file")
    if blob.raw_length() > max_bytes:
        raise not_had("DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
    return LoadedDocument(uri, (blob.data,))


KIND: Final = SourceKind(
    interface_version=INTERFACE_VERSION, changes=changes, secret_host=lambda git: host_of(git.url)
)
