"""For tests: an embedder without a model, and the contract that every embedder keeps."""

from groundline_embedding.testing.contract import EmbedderContract
from groundline_embedding.testing.fake import FakeEmbedder

__all__ = ["EmbedderContract", "FakeEmbedder"]
