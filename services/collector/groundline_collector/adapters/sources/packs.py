"""Limits of a git server's pack, checked before a library unpacks it, which holds whole objects in memory.

The format is https://git-scm.com/docs/pack-format.
"""

import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

from groundline_collector.adapters.sources.common import refused

MAX_OBJECTS: Final = 2_000_000
MAX_OBJECT_BYTES: Final = 512 * 1024**2
MAX_UNPACKED_BYTES: Final = 64 * 1024**3
"""Maximum size of all objects; a delta counts as its result."""

_PART: Final = 64 * 1024
_OFFSET_DELTA: Final = 6
_REFERENCE_DELTA: Final = 7
_ID_BYTES: Final = 20
_DELTA_HEAD_BYTES: Final = 20
"""Size of two numbers of at most ten bytes each."""


def require_bounded(pack: BinaryIO) -> None:
    """Raise FailedPreconditionError (SOURCE_REFUSED) for a pack of too many or too large objects, or for a
    file that is not a pack. Reads from the file's beginning."""
    pack.seek(0)
    head = pack.read(12)
    if len(head) < 12 or not head.startswith(b"PACK"):
        raise refused("the server does not answer as a git repository")
    count = int.from_bytes(head[8:])
    if count > MAX_OBJECTS:
        raise refused(f"the commit has more than {MAX_OBJECTS} objects")
    total = 0
    for _ in range(count):
        size = _object_bytes(pack)
        total += size
        if size > MAX_OBJECT_BYTES:
            raise refused(f"a file or folder of the commit has more than {MAX_OBJECT_BYTES} bytes")
        if total > MAX_UNPACKED_BYTES:
            raise refused(f"the commit unpacks to more than {MAX_UNPACKED_BYTES} bytes")


def _object_bytes(pack: BinaryIO) -> int:
    """Return the bytes that the next object says it takes, itself or as what its delta makes.

    The file is then behind it. Raises FailedPreconditionError.
    """
    first = _byte(pack)
    kind, size, shift, more = first >> 4 & 7, first & 15, 4, first & 128
    while more:
        following = _byte(pack)
        size |= (following & 127) << shift
        shift, more = shift + 7, following & 128
        if size > MAX_OBJECT_BYTES:
            return size
    if kind == _OFFSET_DELTA:
        while _byte(pack) & 128:
            pass
    elif kind == _REFERENCE_DELTA:
        pack.read(_ID_BYTES)
    head = b""
    unpacked = 0
    for part in _inflated(pack):
        if len(head) < _DELTA_HEAD_BYTES:
            head += part[:_DELTA_HEAD_BYTES]
        unpacked += len(part)
        if unpacked > size:
            raise refused("an object of the commit is larger than it says")
    if kind in (_OFFSET_DELTA, _REFERENCE_DELTA):
        _, rest = _number(head)
        made, _ = _number(rest)
        return max(size, made)
    return size


def _inflated(pack: BinaryIO) -> Iterator[bytes]:
    """Yield what the next object unpacks to, in parts."""
    unpacking = zlib.decompressobj()
    while not unpacking.eof:
        data = unpacking.unconsumed_tail or pack.read(_PART)
        try:
            part = unpacking.decompress(data, _PART)
        except zlib.error:
            raise refused("an object of the commit cannot be unpacked") from None
        if not data and not part and not unpacking.eof:
            raise refused("the commit ends too early")
        yield part
    pack.seek(-len(unpacking.unused_data), 1)


def _number(data: bytes) -> tuple[int, bytes]:
    """Return a number of seven bits a byte, the lowest first, and what follows it."""
    value = 0
    for place, byte in enumerate(data):
        value |= (byte & 127) << 7 * place
        if not byte & 128:
            return value, data[place + 1 :]
    raise refused("a change of the commit cannot be read")


def _byte(pack: BinaryIO) -> int:
    data = pack.read(1)
    if not data:
        raise refused("the commit ends too early")
    return data[0]
