"""Finished chunks of a long document, which wait on disk for the others of it."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from groundline_extraction.spooling import Spool
from groundline_indexing.texts import PreparedChunk, Section, Series, Vectors


class FinishedChunks:
    """Chunks with their vectors, which are appended some hundred at a time. Close it when done."""

    def __init__(self, directory: Path | None) -> None:
        self._chunks: Spool[Sequence[PreparedChunk]] = Spool(_dumped, _loaded, directory=directory)
        self._vectors: Spool[Vectors] = Spool(_dumped_vectors, _loaded_vectors, directory=directory)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._chunks.close()
        self._vectors.close()

    def append(self, chunks: Sequence[PreparedChunk], vectors: Vectors) -> None:
        """Append chunks with float16 vectors, one for each. Raises OSError if the disk is full."""
        self._chunks.append(chunks)
        self._vectors.append(vectors)
        self._count += len(chunks)

    @property
    def chunks(self) -> Series[PreparedChunk]:
        return _Flat(self._chunks, lambda: self._count)

    @property
    def vectors(self) -> Series[Vectors]:
        return _Flat(self._vectors, lambda: self._count)


class _Flat[T]:
    """Elements of lists one after the other."""

    def __init__(self, lists: Iterable[Iterable[T]], count: Callable[[], int]) -> None:
        self._lists = lists
        self._count = count

    def __iter__(self) -> Iterator[T]:
        return (value for values in self._lists for value in values)

    def __len__(self) -> int:
        return self._count()


def _dumped(chunks: Sequence[PreparedChunk]) -> bytes:
    rows = [
        [
            chunk.section.text,
            chunk.section.start,
            chunk.section.end,
            chunk.section.siblings_before,
            chunk.section.siblings_after,
            chunk.context,
            chunk.lexical_text,
            chunk.signature.hex(),
            chunk.page,
            chunk.last_page,
        ]
        for chunk in chunks
    ]
    return json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _loaded(data: bytes) -> Sequence[PreparedChunk]:
    return [
        PreparedChunk(
            Section(text, start, end, siblings_before=before, siblings_after=after),
            context,
            lexical,
            bytes.fromhex(signature),
            page,
            last_page,
        )
        for text, start, end, before, after, context, lexical, signature, page, last_page in json.loads(
            data.decode("utf-8", "surrogatepass")
        )
    ]


def _dumped_vectors(vectors: Vectors) -> bytes:
    return len(vectors).to_bytes(4) + vectors.astype(np.float16, copy=False).tobytes()


def _loaded_vectors(data: bytes) -> Vectors:
    return np.frombuffer(data, np.float16, offset=4).reshape(int.from_bytes(data[:4]), -1)
