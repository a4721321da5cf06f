"""Extracts and cuts a large text in a process of its own, whose peak memory is what is measured."""

import asyncio
import json
import resource
import sys
import time
from contextlib import closing
from datetime import UTC, datetime

from groundline_ingestor.__main__ import open_sandbox
from groundline_ingestor.adapters.extraction.extractor import DocumentExtractor
from groundline_ingestor.adapters.splitting import DocumentSplitter
from groundline_ingestor.domain import Collection, DocumentInput, FileContent, Partition
from groundline_ingestor.service.preparation import Limits, Preparation, identify
from groundline_ingestor.settings import IngestorSettings
from pydantic import SecretStr

__all__ = ["main"]

SENTENCE = "This sentence is one of many that make a text long. "


async def main(megabytes: int) -> None:
    """Print figures as JSON."""
    now = datetime.now(UTC)
    partition = Partition(1, "model", 384, "english")
    collection = Collection("large", "large", {}, (), (), partition, now, now)
    paragraph = SENTENCE * 12 + "\n\n"
    before = _peak_mib()
    async with open_sandbox(IngestorSettings(database_url=SecretStr("postgresql://unused"))) as sandbox:
        preparation = Preparation(
            DocumentExtractor(sandbox), DocumentSplitter(lambda texts: [0] * len(texts)), Limits(2**31, 10**7)
        )
        with preparation.open_spool_file() as file:
            for _ in range(megabytes * 10**6 // len(paragraph)):
                file.write(paragraph.encode())
            given = DocumentInput(FileContent(file, file.tell()), uri="large.txt")
            begun = time.perf_counter()
            given, version = identify(given, collection)
            text, version = preparation.read(given, version)
        with closing(text.stretches):
            count = sum(len(part.chunks) for part in preparation.chunk(text, version, collection))
    print(
        json.dumps(
            {
                "large_text_mb": megabytes,
                "large_text_chunks": count,
                "large_text_prepare_seconds": round(time.perf_counter() - begun, 1),
                "large_text_rss_before_mib": round(before),
                "large_text_peak_rss_mib": round(_peak_mib()),
            }
        )
    )


def _peak_mib() -> float:
    """Kilobytes on Linux, bytes on macOS."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
