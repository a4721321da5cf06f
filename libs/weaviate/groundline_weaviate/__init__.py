"""Chunks in Weaviate, the distributed index: storing, searching and comparing them."""

from groundline_weaviate.chunks import Entry, IndexedChunk, Space
from groundline_weaviate.client import MAX_PROPOSALS, Proposal, Weaviate, WriteFailure, open_weaviate
from groundline_weaviate.conditions import Extent, condition_of
from groundline_weaviate.settings import WeaviateSettings

__all__ = [
    "MAX_PROPOSALS",
    "Entry",
    "Extent",
    "IndexedChunk",
    "Proposal",
    "Space",
    "Weaviate",
    "WeaviateSettings",
    "WriteFailure",
    "condition_of",
    "open_weaviate",
]
