"""Numbers of segments by their digests."""

import tracemalloc
from hashlib import blake2b
from itertools import batched

from groundline_indexing.revisions.numbers import DIGEST_BYTES, SegmentNumbers

DIGESTS = [blake2b(number.to_bytes(4), digest_size=DIGEST_BYTES).digest() for number in range(60_000)]


def test_what_was_put_is_found_and_nothing_else() -> None:
    numbers = SegmentNumbers()
    assert numbers.find(DIGESTS[:3]) == {}
    numbers.put([], [])
    assert numbers.following == 0
    # Digests that differ in the zeros that end them, or have nothing else.
    close = [bytes(DIGEST_BYTES), b"a".ljust(DIGEST_BYTES, b"\0"), b"a".ljust(DIGEST_BYTES - 1, b"\0") + b"b"]
    numbers.put(close[:2], [7, 3])
    assert numbers.find([*close, DIGESTS[0]]) == {close[0]: 7, close[1]: 3}
    assert numbers.following == 8


def test_a_number_takes_few_bytes_however_many_there_are() -> None:
    tracemalloc.start()
    try:
        numbers = SegmentNumbers()
        for some in batched(range(len(DIGESTS)), 1000):
            numbers.put([DIGESTS[number] for number in some], some)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 25 * len(DIGESTS)
    assert numbers.following == len(DIGESTS)
    assert numbers.find(DIGESTS[::7]) == {digest: at * 7 for at, digest in enumerate(DIGESTS[::7])}
