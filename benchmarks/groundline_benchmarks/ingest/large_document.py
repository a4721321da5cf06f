"""Job in a process of its own, as an ingestor runs it, with its peak memory."""

import asyncio
import json
import sys
import time
from typing import Final

import psutil
from groundline_database import acquire, keep_session, open_pool, register_vectors
from groundline_embedding import Embedders
from groundline_indexing.preparation import open_sandbox
from groundline_ingestor.__main__ import wire_on, working
from groundline_ingestor.adapters.postgres.stores import stores_on
from groundline_ingestor.domain.jobs import has_ended
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import detect_lexical_index
from groundline_runtime.paging import PageTokens

from groundline_benchmarks.ingest.corpus import GivenVectors, only_warnings
from groundline_benchmarks.measuring.processes import peak_rss_mib

POLL_SECONDS: Final = 0.1


async def main(job_id: str) -> None:
    """Work until the job has ended, then print figures as JSON. The database is the ingestor's setting."""
    only_warnings()
    settings, process = IngestorSettings(), psutil.Process()
    async with (
        open_pool(settings, init=register_vectors, reset=keep_session) as pool,
        open_sandbox(settings) as sandbox,
    ):
        async with acquire(pool) as connection:
            stores = stores_on(pool, await detect_lexical_index(connection))
        _, worker = wire_on(settings, stores, Embedders([GivenVectors(1000)]), sandbox, PageTokens(bytes(32)))
        before, begun = peak_rss_mib(process), time.perf_counter()
        async with working(worker, settings):
            job = await stores.jobs.find(job_id)
            while job is not None and not has_ended(job):
                await asyncio.sleep(POLL_SECONDS)
                job = await stores.jobs.find(job_id)
    seconds = time.perf_counter() - begun
    print(json.dumps({"rss_before_mib": before, "peak_rss_mib": peak_rss_mib(process), "seconds": seconds}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
