"""Chunks that a new version of their document leaves as they were."""

import tracemalloc
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from groundline_database import Connection
from groundline_indexing.chunks import CHUNK_COLUMNS
from groundline_indexing.revisions.carrying import CarriedChunks

CHUNKS = 10_000
# Columns that both tell of a chunk, between its document and its text and behind that.
SAID = ["", "words", 0, 0, "file", "{}", []]


class Stored:
    """Connection to the chunks of one document, in its order."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    async def cursor(self, *_: object, **__: object) -> AsyncIterator[list[Any]]:
        for chunk_id, text in enumerate(self._texts, 1):
            yield [chunk_id, "document", text, *SAID]


async def carried(texts: list[str]) -> CarriedChunks:
    chunks = CarriedChunks(1, 2)
    await chunks.read(cast("Connection", Stored(texts)), ["document"])
    return chunks


def a_record(text: str, place: int) -> tuple[Any, ...]:
    context, lexical, before, after, source_type, metadata, principals = SAID
    said = {
        "document_id": "document", "original_text": text, "context_annotation": context,
        "lexical_text": lexical, "siblings_before": before, "siblings_after": after,
        "source_type": source_type, "metadata": metadata, "allowed_principals": principals,
        "chunk_index": place, "start_offset": place * 10, "end_offset": place * 10 + 9,
    }  # fmt: skip
    return tuple(said.get(name) for name in CHUNK_COLUMNS)


@pytest.mark.parametrize("texts", [[], ["a"], ["a", "b", "a", "c"]])
async def test_each_chunk_is_taken_once(texts: list[str]) -> None:
    chunks = await carried(texts)
    assert not chunks.holds(a_record("another", 0))
    assert [chunks.holds(a_record("a", place)) for place in range(3)] == [
        number < texts.count("a") for number in range(3)
    ]


async def test_a_chunk_takes_few_bytes_however_long_the_document_is() -> None:
    texts = [f"Text {number}" for number in range(CHUNKS)]
    tracemalloc.start()
    try:
        chunks = await carried(texts)
        assert all(chunks.holds(a_record(text, place)) for place, text in enumerate(texts[1:], 10**6))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 120 * CHUNKS
