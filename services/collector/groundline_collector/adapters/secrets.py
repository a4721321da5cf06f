"""Secrets that sources and webhooks name."""

from pathlib import Path
from typing import Final

from groundline_runtime.errors import FailedPreconditionError

__all__ = ["Secrets"]

MAX_SECRET_BYTES: Final = 16 * 1024


class Secrets:
    """Files that hold a secret each, in a folder for each collection, which alone may use them.

    They are read when needed, so that a changed one takes effect at once.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def require(self, collection_id: str, name: str) -> None:
        """Raise FailedPreconditionError (SOURCE_NOT_AVAILABLE) unless the collection has the secret."""
        if self._directory is None or not (self._directory / collection_id / name).is_file():
            raise _not_available(f"the collector has no secret {name!r} for the collection {collection_id!r}")

    def read(self, collection_id: str, name: str) -> str:
        """Return a secret's text without the line's end. Raises FailedPreconditionError
        (SOURCE_NOT_AVAILABLE)."""
        self.require(collection_id, name)
        assert self._directory is not None, "require() raised"
        try:
            with (self._directory / collection_id / name).open("rb") as file:
                return file.read(MAX_SECRET_BYTES).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            raise _not_available(f"the secret {name!r} cannot be read") from None


def _not_available(message: str) -> FailedPreconditionError:
    return FailedPreconditionError("SOURCE_NOT_AVAILABLE", message)
