"""For tests: stores in memory, and the contract that every implementation of the ports keeps."""

from groundline_ingestor.testing.contract import StoreContract, Stores
from groundline_ingestor.testing.memory import MemoryDocuments, MemoryStores

__all__ = ["MemoryDocuments", "MemoryStores", "StoreContract", "Stores"]
