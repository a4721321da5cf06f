import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from groundline_embedding import Embedder, Embedders
from groundline_extraction.documents import GivenDocument
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.texts import TextStream
from groundline_ingestor.__main__ import wire_on
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.ports import Collector
from groundline_ingestor.service import jobs
from groundline_ingestor.settings import IngestorSettings
from groundline_runtime.paging import PageTokens
from groundline_tests.ingestor.services import FakeCollector, FaultyEmbedder, Services, Start
from pydantic import SecretStr


@pytest.fixture
def start(stores: Stores, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    with Sandbox(ReaderLimits()) as sandbox:

        def start(
            collector: Collector | None = None,
            embedder: FaultyEmbedder | None = None,
            others: Sequence[Embedder] = (),
            **settings: Any,
        ) -> Services:
            chosen = IngestorSettings(
                database_url=SecretStr(database_url),
                **{"workers": 1, "max_document_bytes": 20_000, "max_chunks_per_document": 10, **settings},
            )
            embedder = embedder or FaultyEmbedder()
            monkeypatch.setattr(jobs, "WATCH_SECONDS", 0.02)
            page_tokens = PageTokens(bytes(32))
            servicer, worker = wire_on(
                chosen,
                stores,
                Embedders([embedder, *others]),
                sandbox,
                page_tokens,
                collector=collector or FakeCollector(),
            )
            return Services(
                chosen,
                stores,
                embedder,
                servicer._collections,
                servicer._documents,
                servicer._ingestion,
                servicer._jobs,
                servicer._reindex,
                worker,
            )

        yield start


@pytest.fixture
def services(start: Start) -> Services:
    return start()


@pytest.fixture
def may_go_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when documents with "slow" in their uri may be read."""
    may_go_on, read = threading.Event(), DocumentExtractor.read

    def read_late(self: DocumentExtractor, given: GivenDocument, **named: Any) -> TextStream:
        if "slow" in given.uri:
            may_go_on.wait(20)
        return read(self, given, **named)

    monkeypatch.setattr(DocumentExtractor, "read", read_late)
    return may_go_on
