"""Percentiles."""

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of at least one value that `share` (0 to 1) of them do not exceed (nearest
    rank)."""
    ordered = sorted(values)
    rank = max(1, -(-round(share * 1_000_000) * len(ordered) // 1_000_000))
    return ordered[rank - 1]
