"""Metrics of ingestion."""

from typing import Final

from groundline_runtime.metrics.declaring import BoundedNames, Counter, Gauge

CLIENTS: Final = BoundedNames()
"""Clients that have a series of their own."""

ITEMS: Final = Gauge(
    "groundline.ingestion.items",
    "Items of jobs that have not ended, by state; every replica tells the same.",
    unit="{item}",
    labels=("state",),
)
OLDEST_ITEM: Final = Gauge(
    "groundline.ingestion.oldest",
    "Age of the oldest item that may be worked on and waits; every replica tells the same.",
    unit="s",
)
DOCUMENTS: Final = Counter(
    "groundline.ingestion.documents",
    "Ingested documents, by outcome.",
    unit="{document}",
    labels=("outcome",),
)
COST: Final = Counter(
    "groundline.ingestion.cost",
    "Price of the model calls and vectors for documents, where it is known, by client and collection; the"
    " collection of texts that are only embedded is `none`.",
    unit="{USD}",
    labels=("client", "collection"),
)
WEBHOOK_LAG: Final = Gauge(
    "groundline.webhooks.lag",
    "Time since a job ended of which a webhook was not told yet, the longest; every replica tells the same.",
    unit="s",
)
WEBHOOK_CALLS: Final = Counter(
    "groundline.webhooks.calls",
    "Calls of webhooks, by outcome: delivered, failed (it is called again) or given_up.",
    unit="{call}",
    labels=("outcome",),
)
CHUNKS: Final = Counter("groundline.ingestion.chunks", "Chunks stored.", unit="{chunk}")
