"""Metrics of the distributed index."""

from typing import Final

from groundline_runtime.metrics.declaring import Counter, Gauge

INDEX_OBJECTS: Final = Counter(
    "groundline.search_index.objects",
    "Objects of the distributed index, by outcome: stored, deleted or refused.",
    unit="{object}",
    labels=("outcome",),
)
INDEX_LAG: Final = Gauge(
    "groundline.search_index.lag", "How far the distributed index is behind the database.", unit="s"
)
INDEX_PENDING: Final = Gauge(
    "groundline.search_index.pending",
    "Changes that the distributed index has still to take in.",
    unit="{change}",
)
INDEX_SET_ASIDE: Final = Gauge(
    "groundline.search_index.set_aside", "Chunks that the distributed index refused.", unit="{chunk}"
)
