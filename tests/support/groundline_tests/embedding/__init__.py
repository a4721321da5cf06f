"""An embedder without a model, and the contract that every embedder keeps."""

from groundline_tests.embedding.contract import EmbedderContract
from groundline_tests.embedding.fake import FakeEmbedder

__all__ = ["EmbedderContract", "FakeEmbedder"]
