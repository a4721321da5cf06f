"""Texts, vectors, and an embedder without a model, to measure ingestion with."""

import logging
import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import batched
from typing import Final

import numpy as np
import structlog
from groundline.v1 import passage_pb2
from groundline_embedding.ports import ReadsTextsAlone, Vectors
from groundline_extraction.texts import TextSegment
from groundline_indexing.documents import DocumentVersion
from groundline_indexing.texts import PreparedChunk, Section
from groundline_ingestor.domain.work import NewVersion
from groundline_signatures import signature

from groundline_benchmarks.measuring.texts import DIMENSIONS, TEXT_WORDS, texts

CHUNKS_PER_DOCUMENT: Final = 16
TOPICS: Final = 200
SENTENCE: Final = "This sentence, number {}, is one of many that make a text long. "
SENTENCES_PER_PARAGRAPH: Final = 12


class GivenVectors(ReadsTextsAlone):
    """An Embedder with ready vectors, in topics with as much between them as those of texts."""

    model = "given"
    dimensions = DIMENSIONS
    max_tokens = None

    def __init__(self, count: int = 20_000) -> None:
        random = np.random.default_rng(3)
        topics = random.normal(size=(TOPICS, DIMENSIONS))
        vectors = topics[random.integers(TOPICS, size=count)]
        vectors += random.normal(size=(count, DIMENSIONS)) * 0.7
        self.vectors: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [text.count(" ") + 1 for text in texts]

    def cost(self, tokens: int) -> float | None:
        return 0.0

    async def embed_query(self, text: str) -> Vectors:
        return self.of(text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.of(text) for text in texts])

    async def close(self) -> None:
        """Do nothing."""

    def of(self, text: str) -> Vectors:
        vector: Vectors = self.vectors[zlib.crc32(text.encode()) % len(self.vectors)]
        return vector


def documents(count: int, embedder: GivenVectors, *, seed: int, prefix: str) -> list[NewVersion]:
    """Return documents, ready to be stored, with `count` chunks together."""
    return list(_documents(texts(np.random.default_rng(seed), count), embedder, prefix))


def _documents(all_texts: Iterator[str], embedder: GivenVectors, prefix: str) -> Iterator[NewVersion]:
    for number, some in enumerate(batched(all_texts, CHUNKS_PER_DOCUMENT)):
        uri = f"{prefix}-{number}.txt"
        version = DocumentVersion(
            uri=uri,
            source_type=passage_pb2.SOURCE_TYPE_FILE,
            title=f"Document {number}",
            mime_type="text/plain",
            content_hash=uri.encode(),
            input_hash=uri.encode(),
            ingestion_hash=uri.encode(),
            size_bytes=sum(map(len, some)),
            metadata={},
            allowed_principals=(),
        )
        chunks = [PreparedChunk(Section(text, 0, len(text)), "", text, signature(text)) for text in some]
        vectors = np.stack([embedder.of(text) for text in some]).astype(np.float16)
        yield NewVersion(version, chunks, vectors, [TextSegment("\n\n".join(some))])


def texts_of_words(words: Sequence[str], count: int, seed: int) -> list[str]:
    """Make texts of about TEXT_WORDS given words, every eighth a compound of two: in tokens of the model with
    this vocabulary, as long as English ones, and short enough for MiniLM to read whole."""
    random = np.random.default_rng(seed)
    made = []
    for length in random.integers(TEXT_WORDS - 30, TEXT_WORDS + 20, size=count):
        compounds = length // 8
        chosen = [words[place] for place in random.integers(len(words), size=length + compounds)]
        singles, halves = chosen[: length - compounds], chosen[length - compounds :]
        parts = singles + [one + other for one, other in zip(halves[::2], halves[1::2], strict=False)]
        made.append(" ".join(parts[place] for place in random.permutation(len(parts))))
    return made


def large_text(mebibytes: int) -> str:
    """Return paragraphs of numbered sentences."""
    number, size, parts = 0, 0, []
    while size < mebibytes * 2**20:
        sentences = [SENTENCE.format(number + one) for one in range(SENTENCES_PER_PARAGRAPH)]
        parts.append("".join(sentences) + "\n\n")
        number += SENTENCES_PER_PARAGRAPH
        size += len(parts[-1])
    return "".join(parts)


def only_warnings() -> None:
    """Log only warnings, and to another stream than the figures."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
