"""Whether vectors can be told apart by their bits, which depends on the embedding model."""

# ruff: noqa: S608 - what is put into SQL here are numbers and the name of a table

import asyncio
from typing import Final

import numpy as np
from groundline_database import Connection, quartile_of
from numpy.typing import NDArray

__all__ = ["LEAST_FOUND", "share_found_by_bits"]

LEAST_FOUND: Final = 0.98
"""Share of the nearest that has to be among the candidates."""

_NEAREST: Final = 50
_CANDIDATES: Final = 250
"""Candidates of a sample, fewer than a search takes: the more vectors, the more of them it needs."""
_QUERIES: Final = 100
_SAMPLE: Final = 5_000

type _Floats = NDArray[np.float32]


async def share_found_by_bits(connection: Connection, table: str, rows: int) -> float:
    """Return the share of the nearest vectors that are among the candidates by their bits, of a sample of the
    table."""
    percent = min(100.0, 150.0 * _SAMPLE / max(rows, 1))
    sample = await connection.fetch(
        f"SELECT embedding FROM {table} TABLESAMPLE SYSTEM ({percent:.6f}) REPEATABLE (0) LIMIT {_SAMPLE}"
    )
    if len(sample) <= _CANDIDATES:
        return 1.0
    vectors = np.array([row["embedding"].to_numpy() for row in sample], np.float32)
    return await asyncio.to_thread(_share_found, vectors)


def _share_found(vectors: _Floats) -> float:
    queries = np.linspace(0, len(vectors) - 1, _QUERIES).astype(int)
    quartile = quartile_of(vectors.shape[1])
    signs = [np.where(vectors > least, 1, -1) for least in (-quartile, 0.0, quartile)]
    codes = np.concatenate(signs, axis=1).astype(np.float32)
    nearest = _best(vectors[queries] @ vectors.T, _NEAREST)
    candidates = _best(codes[queries] @ codes.T, _CANDIDATES)
    found = sum(len(np.intersect1d(*both)) for both in zip(nearest, candidates, strict=True))
    return float(found) / nearest.size


def _best(scores: _Floats, count: int) -> NDArray[np.intp]:
    """Return the places of the highest scores of each row."""
    return np.argpartition(-scores, count - 1, axis=1)[:, :count]
