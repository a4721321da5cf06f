"""Calls of webhooks when jobs have ended."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

import structlog

from groundline_ingestor.adapters.postgres.webhooks import PostgresWebhooks
from groundline_ingestor.domain.webhooks import Delivery, pause_after
from groundline_ingestor.metrics import WEBHOOK_CALLS
from groundline_ingestor.ports import Collector, NotDeliveredError

SENT_AT_ONCE: Final = 10
LEASE_SECONDS: Final = 60.0
"""Time after which another process sends the notices of a lost one, in seconds; an attempt takes less."""

_log = structlog.get_logger(__name__)


class Webhooks:
    """Use case that records ended jobs, and sends the notices that are due."""

    def __init__(self, outbox: PostgresWebhooks, collector: Collector) -> None:
        self._outbox = outbox
        self._collector = collector

    async def tell(self) -> None:
        """Send all notices that are due. Raises UnavailableError while the store is down."""
        await self._outbox.announce()
        while due := await self._outbox.lease(SENT_AT_ONCE, LEASE_SECONDS):
            async with asyncio.TaskGroup() as tasks:
                for delivery in due:
                    tasks.create_task(self._deliver(delivery))

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self._collector.send(delivery)
        except NotDeliveredError as error:
            await self._note_failure(delivery, str(error))
        except Exception as error:  # an unexpected error counts as one of the attempts
            await self._note_failure(delivery, type(error).__qualname__)
        else:
            WEBHOOK_CALLS.add(1, {"outcome": "delivered"})
            await self._outbox.remove(delivery)

    async def _note_failure(self, delivery: Delivery, failure: str) -> None:
        pause = pause_after(delivery.attempts)
        WEBHOOK_CALLS.add(1, {"outcome": "given_up" if pause is None else "failed"})
        if pause is None:
            await self._outbox.remove(delivery)
        else:
            await self._outbox.postpone(delivery, pause)
        _log.warning(
            "webhook_given_up" if pause is None else "webhook_failed",
            webhook_id=delivery.delivery_id,
            collection_id=delivery.collection_id,
            job_id=delivery.job_id,
            host=urlsplit(delivery.url).hostname,  # the path may be a password
            attempts=delivery.attempts,
            failure=failure,
        )
