"""Signatures of texts, by which near-duplicates are found without the texts.

They are made once, at ingestion, and compared at search. A signature is SIGNATURE_BYTES long: 8 bytes that
are equal for equal texts (except for case and white space), then one byte for each of 128 MinHash values over
the text's three-word shingles (Broder, 1997; one byte of each as in b-bit minwise hashing, Li and König,
2010). The share of equal bytes estimates the Jaccard index of two texts' sets of shingles, with a standard
deviation of .027 at .9.

Signatures are stored: after a change of this computation, chunks must be ingested again.
"""

import hashlib
import re
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["SIGNATURE_BYTES", "alike_rows", "as_matrix", "pairwise_similarity", "signature"]

TEXT_HASH_BYTES: Final = 8
MINHASHES: Final = 128
SIGNATURE_BYTES: Final = TEXT_HASH_BYTES + MINHASHES
SHINGLE_WORDS: Final = 3

_WORD: Final = re.compile(r"\w+")
# For texts in ASCII: a space for each character that is not part of a word.
_AS_WORDS: Final = bytes(
    code if chr(code).isalnum() or code == ord("_") else 32 for code in range(128)
) + bytes(128)
_CHANCE: Final = 1 / 256
"""Probability that two unrelated bytes are equal."""
_MASK: Final = 2**64 - 1
_ROWS: Final = 32
_BLOCKS: Final = MINHASHES // 8
"""Number of blocks of eight values, which are compared as one number."""


def _splitmix(count: int) -> list[int]:
    """Generate constants by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014); they depend on no library's
    release."""
    state, values = 0, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        values.append((mixed ^ (mixed >> 31)) >> 32)
    return values


_MULTIPLIERS: Final = np.array([value | 1 for value in _splitmix(MINHASHES)], dtype=np.uint32)[:, None]
_OFFSETS: Final = np.array(_splitmix(2 * MINHASHES)[MINHASHES:], dtype=np.uint32)[:, None]
_PLACES: Final = np.array(
    [value | 1 for value in _splitmix(2 * MINHASHES + SHINGLE_WORDS)[2 * MINHASHES :]], np.uint32
)


def signature(text: str) -> bytes:
    """Return the signature of a text, SIGNATURE_BYTES long."""
    casefolded = text.casefold()
    normalised = " ".join(casefolded.split())
    text_hash = hashlib.blake2b(normalised.encode(errors="surrogatepass"), digest_size=TEXT_HASH_BYTES)
    if casefolded.isascii():
        # The same words, in less than half the time.
        found = casefolded.encode().translate(_AS_WORDS).split()
    else:
        found = [word.encode(errors="surrogatepass") for word in _WORD.findall(casefolded)]
    words = np.fromiter(map(zlib.crc32, found), np.uint32, len(found))
    return text_hash.digest() + _minhashes(words).tobytes()


def _minhashes(words: NDArray[np.uint32]) -> NDArray[np.uint8]:
    width = min(SHINGLE_WORDS, len(words))
    count = max(len(words) - SHINGLE_WORDS + 1, 1)
    shingles = np.zeros(count, np.uint32)
    for place in range(width):
        shingles += words[place : place + count] * _PLACES[place]
    # Mixed, so that the products below differ in all bits (finalizer of MurmurHash3).
    shingles ^= shingles >> np.uint32(16)
    shingles *= np.uint32(0x85EBCA6B)
    shingles ^= shingles >> np.uint32(13)
    least = (shingles * _MULTIPLIERS + _OFFSETS).min(axis=1)
    # A minimum's highest bits are nearly always 0, and its lowest depend on the shingle's lowest alone: the
    # byte is taken from all of them (Fibonacci hashing).
    return (least * np.uint32(0x9E3779B1) >> np.uint32(24)).astype(np.uint8)


def as_matrix(signatures: Sequence[bytes] | bytes) -> NDArray[np.uint8]:
    """Return signatures, concatenated or one by one, as rows: (n, SIGNATURE_BYTES)."""
    joined = signatures if isinstance(signatures, bytes) else b"".join(signatures)
    return np.frombuffer(joined, np.uint8).reshape(-1, SIGNATURE_BYTES)


def alike_rows(signatures: NDArray[np.uint8], threshold: float) -> NDArray[np.int64]:
    """Return rows, ascending, that include all that are at least that similar to another one.

    Few differing values leave some blocks of eight equal (the pigeonhole principle): rows that share none are
    not that similar. Below a threshold of about .88 that excludes nothing, and all rows are returned.
    """
    differing = MINHASHES * (1 - threshold) * (1 - _CHANCE)
    if differing + 0.001 >= _BLOCKS:  # similarities are rounded
        return np.arange(len(signatures))
    blocks = np.ascontiguousarray(signatures[:, TEXT_HASH_BYTES:]).view(np.uint64)
    ordered = np.sort(blocks, axis=0)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.empty(0, np.int64)
    order = np.argsort(blocks, axis=0)
    ordered = np.take_along_axis(blocks, order, axis=0)
    shared = ordered[1:] == ordered[:-1]
    return np.unique(np.concatenate((order[1:][shared], order[:-1][shared])))


def pairwise_similarity(signatures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Estimate the Jaccard index of each pair of rows, (n, n), from 0 to 1; 1 for equal texts only."""
    hashes = np.ascontiguousarray(signatures[:, :TEXT_HASH_BYTES]).view(np.uint64)[:, 0]
    minhashes = np.ascontiguousarray(signatures[:, TEXT_HASH_BYTES:])
    # Equal bytes as bits, which are counted by words; some rows at a time, so that it stays in the cache.
    equal = np.empty((len(signatures), len(signatures)), np.float32)
    for first in range(0, len(minhashes), _ROWS):
        block = minhashes[first : first + _ROWS, None, :] == minhashes[None, :, :]
        bits = np.packbits(block, axis=2).view(np.uint64)
        equal[first : first + _ROWS] = np.bitwise_count(bits).sum(axis=2)
    estimated: NDArray[np.float32] = np.clip(
        (equal / np.float32(MINHASHES) - np.float32(_CHANCE)) / np.float32(1 - _CHANCE),
        0,
        np.float32(1 - 1e-6),
    )
    estimated[hashes[:, None] == hashes[None, :]] = 1.0
    return estimated
