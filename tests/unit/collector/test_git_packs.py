"""Which packs of a git server are unpacked."""

import io
import zlib
from collections.abc import Iterator

import pytest
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.objects import Blob
from dulwich.pack import DELTA_TYPES, UnpackedObject, create_delta, write_pack_data
from groundline_collector.adapters.sources import packs
from groundline_collector.adapters.sources.packs import require_bounded
from groundline_runtime.errors import FailedPreconditionError

BLOB = 3


def entry(kind: int, size: int, content: bytes) -> bytes:
    """Return an object as it stands in a pack, which states its size."""
    first, rest = kind << 4 | size & 15, size >> 4
    head = bytearray([first | (128 if rest else 0)])
    while rest:
        rest, low = rest >> 7, rest & 127
        head.append(low | (128 if rest else 0))
    return bytes(head) + content


def pack_of(*entries: bytes, count: int | None = None) -> io.BytesIO:
    number = len(entries) if count is None else count
    return io.BytesIO(b"PACK" + (2).to_bytes(4) + number.to_bytes(4) + b"".join(entries) + bytes(20))


BROKEN = {
    "no pack": io.BytesIO(b"<html>"),
    "empty": io.BytesIO(b""),
    "too many": pack_of(count=3_000_000_000),
    "ends early": pack_of(entry(BLOB, 3, zlib.compress(b"abc")), count=2),
    "says too much": pack_of(entry(BLOB, 2**40, zlib.compress(b"abc"))),
    "is too much": pack_of(entry(BLOB, 3, zlib.compress(bytes(10**7)))),
    "is not packed": pack_of(entry(BLOB, 3, b"abcabcabc")),
    "has no end": pack_of(entry(BLOB, 10**6, zlib.compress(bytes(range(256)) * 4000)[:200])),
    "makes too much": pack_of(
        entry(packs._REFERENCE_DELTA, 12, bytes(20) + zlib.compress(b"\x03" + b"\xff" * 8 + b"\x01" + b"ab"))
    ),
    "makes nothing": pack_of(entry(packs._REFERENCE_DELTA, 2, bytes(20) + zlib.compress(b"\xff\xff"))),
}


@pytest.mark.parametrize("pack", BROKEN.values(), ids=BROKEN)
def test_a_pack_that_is_broken_or_beyond_bounds_is_refused(pack: io.BytesIO) -> None:
    with pytest.raises(FailedPreconditionError) as raised:
        require_bounded(pack)
    assert raised.value.reason == "SOURCE_REFUSED"


def test_a_pack_of_objects_and_deltas_is_taken() -> None:
    old, new = Blob.from_string(b"line\n" * 50_000), Blob.from_string(b"line\n" * 50_000 + b"more\n")

    def records() -> Iterator[UnpackedObject]:
        yield UnpackedObject(BLOB, sha=old.sha().digest(), decomp_chunks=[old.data])
        delta = list(create_delta(old.data, new.data))
        yield UnpackedObject(
            DELTA_TYPES[1], delta_base=old.sha().digest(), sha=new.sha().digest(), decomp_chunks=delta
        )

    file = io.BytesIO()
    write_pack_data(file.write, records(), num_records=2, object_format=DEFAULT_OBJECT_FORMAT)
    require_bounded(file)
