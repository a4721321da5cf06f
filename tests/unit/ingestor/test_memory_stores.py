"""The fakes keep the contract of the ports, as the real stores do."""

import pytest
from groundline_tests.ingestor import MemoryStores, StoreContract


class TestMemoryStores(StoreContract):
    @pytest.fixture
    def stores(self) -> MemoryStores:
        return MemoryStores()
