"""The ingestor: stores in memory, and the contract that every implementation of the ports keeps."""

from groundline_tests.ingestor.contract import StoreContract, Stores
from groundline_tests.ingestor.memory import MemoryDocuments, MemoryStores

__all__ = ["MemoryDocuments", "MemoryStores", "StoreContract", "Stores"]
