"""Secrets that sources and webhooks name."""

from pathlib import Path
from typing import Final

from groundline_runtime.errors import FailedPreconditionError

MAX_SECRET_BYTES: Final = 16 * 1024
HOSTS: Final = ".hosts"


class Secrets:
    """Files that hold a secret each, in a folder for each collection, which alone may use them.

    The file `NAME.hosts` beside one names the hosts, one in a line, that it may be sent to; without it
    whoever administers the collection decides. They are read when needed, so that a changed one takes effect
    at once.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def require(self, collection_id: str, name: str, host: str | None) -> None:
        """Raise FailedPreconditionError (SOURCE_NOT_AVAILABLE) unless the collection has the secret, for that
        host. None: the secret itself names the host."""
        if self._directory is None or not (self._directory / collection_id / name).is_file():
            raise _not_available(f"the collector has no secret {name!r} for the collection {collection_id!r}")
        bound = self._hosts(collection_id, name)
        if host is not None and bound is not None and host.lower() not in bound:
            raise _not_available(f"the secret {name!r} is not for the host {host!r}")

    def _hosts(self, collection_id: str, name: str) -> set[str] | None:
        assert self._directory is not None, "require() raised"
        try:
            return set((self._directory / collection_id / f"{name}{HOSTS}").read_text().lower().split())
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            # Bound to something, and nobody knows to what.
            return set()

    def read(self, collection_id: str, name: str, host: str | None) -> str:
        """Return a secret's text without the line's end. Raises FailedPreconditionError
        (SOURCE_NOT_AVAILABLE)."""
        self.require(collection_id, name, host)
        assert self._directory is not None, "require() raised"
        try:
            with (self._directory / collection_id / name).open("rb") as file:
                return file.read(MAX_SECRET_BYTES).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            raise _not_available(f"the secret {name!r} cannot be read") from None


def _not_available(message: str) -> FailedPreconditionError:
    return FailedPreconditionError("SOURCE_NOT_AVAILABLE", message)
