"""Feeds Weaviate in a process of its own, which stops at a stage and waits there to be killed.

Arguments: the database's URL, the settings of Weaviate as JSON, and the stage: writing, written, deleting or
deleted. Prints the stage's name when it is there.
"""

import asyncio
import sys
from collections.abc import Sequence

from groundline_database import DatabaseSettings, open_pool, register_vectors
from groundline_indexing.feed.changes import FedPartition, Refusals
from groundline_indexing.feed.feeding import Feeding
from groundline_indexing.feed.state import IndexFeed
from groundline_indexing.feed.weaviate import WeaviateIndex
from groundline_weaviate import IndexedChunk, Weaviate, WeaviateSettings, open_weaviate
from pydantic import SecretStr


class StuckIndex(WeaviateIndex):
    """Never comes back from where it is to stop."""

    def __init__(self, weaviate: Weaviate, stage: str) -> None:
        super().__init__(weaviate)
        self._stage = stage

    async def write(self, partition: FedPartition, chunks: Sequence[IndexedChunk]) -> Refusals:
        await self._stop_at("writing")
        refused = await super().write(partition, chunks)
        await self._stop_at("written")
        return refused

    async def delete(self, partition: FedPartition, chunk_ids: Sequence[int]) -> None:
        await self._stop_at("deleting")
        await super().delete(partition, chunk_ids)
        await self._stop_at("deleted")

    async def _stop_at(self, stage: str) -> None:
        if stage == self._stage:
            print(stage, flush=True)
            await asyncio.Event().wait()


async def main(database_url: str, settings: str, stage: str) -> None:
    async with (
        open_pool(DatabaseSettings(database_url=SecretStr(database_url)), init=register_vectors) as pool,
        open_weaviate(WeaviateSettings.model_validate_json(settings)) as weaviate,
    ):
        await Feeding(IndexFeed(pool), StuckIndex(weaviate, stage)).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
