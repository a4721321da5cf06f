"""The store as its own search index, on PostgreSQL."""

from collections.abc import AsyncIterator

import pytest
from groundline_database import DatabaseSettings
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_tests.retriever.corpus import Corpus
from groundline_tests.retriever.search_index import KeywordContract, SearchedIndex, SearchIndexContract
from pydantic import SecretStr


@pytest.fixture(scope="module")
async def index(database_url: str, corpus: Corpus) -> AsyncIterator[SearchedIndex]:
    async def settle() -> None:
        """Do nothing: the index is written with the rows."""

    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=8)
    async with open_chunk_store(settings) as store:
        yield SearchedIndex(corpus, store, store, settle)


class TestPostgresIndex(SearchIndexContract):
    pass


class TestPostgresKeywords(KeywordContract):
    pass
