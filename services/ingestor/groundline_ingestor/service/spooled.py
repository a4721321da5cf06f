"""Files that contents wait in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from groundline_extraction.spooling import is_disk_full
from groundline_runtime.errors import UnavailableError

DISK_FULL_RETRY_SECONDS: Final = 30.0


@contextmanager
def spooled(open_file: Callable[[], BinaryIO]) -> Iterator[BinaryIO]:
    """Provide a file. Raises UnavailableError if the disk is full."""
    try:
        with open_file() as file:
            yield file
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise UnavailableError(
            "DISK_FULL",
            "the ingestor's disk has no room for the document",
            retry_after_seconds=DISK_FULL_RETRY_SECONDS,
        ) from error
