"""Numbers of the segments of a document's revisions, by their digests."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

DIGEST_BYTES: Final = 16


class SegmentNumbers:
    """Numbers of segments, each in 20 bytes: a dictionary takes 200, and a text of 500 MB has two million."""

    def __init__(self) -> None:
        self.following = 0
        """Number that no segment has, behind all others."""
        # Digests in their order, with their numbers: each pair of arrays is more than twice as long as the
        # next, so that few are searched.
        self._sorted: list[tuple[NDArray[np.bytes_], NDArray[np.int32]]] = []

    def put(self, digests: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Take segments that are not known yet, many at a time."""
        if not digests:
            return
        keys, values = np.array(digests, f"S{DIGEST_BYTES}"), np.array(numbers, np.int32)
        self.following = max(self.following, int(values.max()) + 1)
        while self._sorted and len(self._sorted[-1][0]) <= 2 * len(keys):
            more_keys, more_values = self._sorted.pop()
            keys, values = np.concatenate([more_keys, keys]), np.concatenate([more_values, values])
        order = np.argsort(keys, kind="stable")
        self._sorted.append((keys[order], values[order]))

    def find(self, digests: Sequence[bytes]) -> dict[bytes, int]:
        """Return the numbers of those that are known."""
        keys = np.array(digests, f"S{DIGEST_BYTES}")
        found: dict[bytes, int] = {}
        for known, numbers in self._sorted:
            places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            hits = np.flatnonzero(known[places] == keys).tolist()
            found.update((digests[hit], int(numbers[places[hit]])) for hit in hits)
        return found
