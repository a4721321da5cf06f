"""Download of a known model: resumed where it broke off, verified, and complete or absent."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from groundline_embedding.errors import ModelError
from groundline_embedding.local.catalog import CHECKSUMS_FILE, PROMPTS_FILE, KnownModel, fetched_directory

HUB: Final = "https://huggingface.co"
"""Default server of {repository}/resolve/{revision}/{file}, as its mirrors serve them."""

ATTEMPTS: Final = 5
TIMEOUT_SECONDS: Final = 60.0
_PART_BYTES: Final = 1 << 20

type OnProgress = Callable[[str, int, int], None]
"""Told of a file, how many of its bytes are there, and how many it has, 0 where that is not known."""


def fetch_model(
    model: KnownModel,
    cache_dir: Path,
    *,
    base_url: str = HUB,
    revision: str = "main",
    checksums: Mapping[str, str] | None = None,
    on_progress: OnProgress = lambda file, done, total: None,
    wait_seconds: float = 1.0,
) -> Path:
    """Download the model's files unless they exist, and return their directory.

    Every file must match `checksums` (SHA-256 in hexadecimal, by path), or else the checksum that the server
    states: SHA-256 as `X-Linked-ETag` or `ETag`, or git's SHA-1 of a small file. All are of the commit that
    the server names with the first one (`X-Repo-Commit`). The verified checksums are written to SHA256SUMS,
    by which a model is verified again when it is loaded. A broken connection is tried again, `wait_seconds`
    later at first; partial files stay for the next call. Raises ModelError.
    """
    directory = fetched_directory(cache_dir, model.name)
    recorded = directory / CHECKSUMS_FILE
    known = read_checksums(recorded) if recorded.exists() else {}
    if checksums is not None and (missing := sorted(set(model.files) - set(checksums))):
        raise ModelError(f"the checksums lack {', '.join(missing)} of {model.name}")
    found: dict[str, str] = {}
    commit = ""
    try:
        with httpx.Client(follow_redirects=True, timeout=TIMEOUT_SECONDS) as client:
            for file in model.files:
                path = directory / file
                expected = (checksums or known).get(file)
                if expected is None or not path.is_file() or _sha256(path) != expected:
                    url = f"{base_url.rstrip('/')}/{model.name}/resolve/{revision}/{file}"
                    retrying = Retrying(
                        retry=retry_if_exception_type(httpx.TransportError),
                        wait=wait_exponential(wait_seconds, max=30),
                        stop=stop_after_attempt(ATTEMPTS),
                        reraise=True,
                    )
                    stated = retrying(
                        _download, client, url, path, expected if checksums else None, on_progress
                    )
                    if commit and stated != commit:
                        raise ModelError(f"{url} is of commit {stated or 'unknown'}, others are of {commit}")
                    commit = stated
                    # A branch may move between two files.
                    revision = commit or revision
                found[file] = _sha256(path)
        if model.query_prompt or model.document_prompt:
            found[PROMPTS_FILE] = _write_prompts(model, directory / PROMPTS_FILE)
        recorded.write_text(
            "".join(f"{digest}  {file}\n" for file, digest in found.items()), encoding="utf-8"
        )
    except httpx.HTTPError as error:
        raise ModelError(
            f"{model.name} could not be fetched from {base_url} ({str(error) or type(error).__name__}); "
            "fetching it again goes on from here"
        ) from error
    except OSError as error:
        raise ModelError(f"cannot write to {directory} ({error.strerror or error})") from error
    return directory


def _write_prompts(model: KnownModel, path: Path) -> str:
    """Write a model's prompts as its other files have them; return the checksum."""
    prompts = {"prompts": {"query": model.query_prompt, "document": model.document_prompt}}
    path.write_text(json.dumps(prompts), encoding="utf-8")
    return _sha256(path)


def read_checksums(path: Path) -> Mapping[str, str]:
    """Read SHA-256 by path from a file as sha256sum writes it. Raises ModelError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        pairs = [line.split(maxsplit=1) for line in lines]
        return {file.strip().removeprefix("*"): digest for digest, file in pairs}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} does not hold checksums as sha256sum writes them ({error})") from error


def require_unchanged(directory: Path) -> None:
    """Raise ModelError, which names the file, if a file of a fetched model has changed; takes a second for
    each gigabyte."""
    for file, digest in read_checksums(directory / CHECKSUMS_FILE).items():
        path = directory / file
        if not path.is_file():
            raise ModelError(f"{path} is missing: run groundline models fetch again")
        if _sha256(path) != digest:
            raise ModelError(
                f"{path} is not what was fetched (SHA256SUMS): run groundline models fetch again"
            )


def _download(
    client: httpx.Client, url: str, path: Path, expected: str | None, on_progress: OnProgress
) -> str:
    """Resume a download; a file is moved to `path` only when it is verified. Returns its commit, or "" if the
    server does not name it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    begun = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={begun}-"} if begun else {})}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
            raise httpx.RemoteProtocolError("what had arrived does not fit the file; it is begun anew")
        response.raise_for_status()
        stated = expected or _stated_checksum(response)
        if stated is None:
            raise ModelError(f"the server states no checksum of {url}: give the checksums of its files")
        commit = next((found for answer in (*response.history, response) if (found := _commit(answer))), "")
        if path.is_file() and stated in (_sha256(path), _git_sha1(path)):
            return commit  # from a fetch that ended before its last file
        done = begun if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
        length = response.headers.get("content-length")
        total = done + int(length) if length else 0
        with part.open("ab" if done else "wb") as file:
            for data in response.iter_bytes(_PART_BYTES):
                file.write(data)
                done += len(data)
                on_progress(path.name, done, total)
    if stated not in (_sha256(part), _git_sha1(part)):
        part.unlink()
        raise ModelError(f"{url} is not what its checksum {stated} says: it was deleted")
    part.replace(path)
    return commit


def _commit(answer: httpx.Response) -> str:
    return str(answer.headers.get("x-repo-commit", "")).lower()


def _stated_checksum(response: httpx.Response) -> str | None:
    """Return the checksum stated by the response before a redirection, which is the repository's: behind it
    is a store of files."""
    for answer in (*response.history, response):
        for header in ("x-linked-etag", "etag"):
            value = str(answer.headers.get(header, "")).removeprefix("W/").strip('"').lower()
            if len(value) in (40, 64) and not set(value) - set("0123456789abcdef"):
                return value
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git_sha1(path: Path) -> str:
    """Return git's name of a file's content."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while data := file.read(_PART_BYTES):
            digest.update(data)
    return digest.hexdigest()
