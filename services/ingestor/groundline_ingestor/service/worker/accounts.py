"""Accounts of items: what the calls of models for a document cost, and its client's budgets."""

from collections.abc import Sequence
from dataclasses import dataclass

from groundline.v1 import chat_pb2, document_pb2
from groundline_extraction.documents import IngestionError
from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.metrics.declaring import BoundedNames

from groundline_ingestor.adapters.postgres.queue import PostgresQueue
from groundline_ingestor.domain.work import LeasedItem
from groundline_ingestor.metrics import CLIENTS, COST
from groundline_ingestor.service.quotas import Quotas

_collections = BoundedNames()


class Accounts:
    """Accounts of all items of a process."""

    def __init__(self, queue: PostgresQueue, quotas: Quotas) -> None:
        self._queue = queue
        self._quotas = quotas

    def of(self, item: LeasedItem) -> "ItemAccount":
        """Return the account of an item."""
        return ItemAccount(self, item)

    @property
    def have_budgets(self) -> bool:
        """Whether there is any budget."""
        return self._quotas.spending.have_budgets

    async def require_budget(self, item: LeasedItem) -> None:
        """Raise IngestionError (QUOTA_EXHAUSTED) if the item's client, or all together, spent a budget."""
        try:
            await self._quotas.spending.require(item.owner)
        except ResourceExhaustedError as error:
            stage = document_pb2.INGESTION_STATE_CONTEXTUALIZING
            raise IngestionError(stage, error.reason, error.message) from error

    async def spend(self, spent: Sequence[tuple[LeasedItem, chat_pb2.Usage]]) -> None:
        """Add tokens and their price to items, their clients and the metrics."""
        await self._queue.spend([(item.claim, usage) for item, usage in spent])
        for item, usage in spent:
            if usage.cost_usd:
                charged = {"client": CLIENTS(item.owner), "collection": _collections(item.collection_id)}
                COST.add(usage.cost_usd, charged)
            await self._quotas.spending.spend(item.owner, usage)


@dataclass(frozen=True, slots=True)
class ItemAccount:
    """Account of one item."""

    accounts: Accounts
    item: LeasedItem

    async def require_budget(self) -> None:
        """Raise IngestionError (QUOTA_EXHAUSTED) if a budget is spent."""
        await self.accounts.require_budget(self.item)

    async def spend(self, usage: chat_pb2.Usage) -> None:
        """Add tokens and their price."""
        await self.accounts.spend([(self.item, usage)])
