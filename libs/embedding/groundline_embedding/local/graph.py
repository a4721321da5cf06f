"""Small BERT models of sentence-transformers as ONNX graphs, written straight from their weights.

The graph uses onnxruntime's fused operators (domain com.microsoft): a graph of plain operators keeps, after
onnxruntime's own optimiser, four times the nodes, is not faster and takes a quarter more memory.

Matrices go to a file beside the graph, page-aligned: onnxruntime maps that file instead of reading it, so
that loading takes a tenth of a second, only the rows of the vocabulary in use take memory, and processes
on one machine share them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

GRAPH_FILE: Final = "model.onnx"
WEIGHTS_FILE: Final = "model.onnx.data"

HEADS: Final = 12
HIDDEN: Final = 384
LAYER_NORM_EPSILON: Final = 1e-12

PAGE_BYTES: Final = 4096
CONTRIB: Final = "com.microsoft"

type Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PackedRows:
    """A table of vectors in 4 bits a value: a large vocabulary takes an eighth of the space, and only the
    rows that a text needs are unpacked."""

    values: NDArray[np.uint8]
    """Two's complement, two values a byte, the first one low: (rows, HIDDEN / 2)."""
    scales: Floats
    """Factor of each block of values: (rows, HIDDEN / block)."""


def write_graph(
    directory: Path,
    title: str,
    weight: Callable[[str], Floats],
    *,
    layers: int,
    words: PackedRows | None = None,
) -> None:
    """Write GRAPH_FILE and WEIGHTS_FILE of a model with HIDDEN dimensions and HEADS heads.

    `weight` returns a weight by its name in transformers' BertModel; `words` replaces the table of the
    vocabulary. Inputs: `input_ids`, `attention_mask` and, without `words`, `token_type_ids`, int64 of shape
    (batch, sequence). Output: `last_hidden_state`, float32 of shape (batch, sequence, HIDDEN).
    """
    with (directory / WEIGHTS_FILE).open("wb") as data:
        model = _Graph(weight, data).build(title, layers, words)
    onnx.save_model(model, directory / GRAPH_FILE)


class _Graph:
    """Builder of nodes and parameters; each method appends and returns the name of the result."""

    def __init__(self, weight: Callable[[str], Floats], data: BinaryIO) -> None:
        self._weight = weight
        self._data = data
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[TensorProto] = []

    def build(self, title: str, layers: int, words: PackedRows | None) -> onnx.ModelProto:
        inputs = ["input_ids", "attention_mask"]
        if words is None:
            inputs.append("token_type_ids")
            hidden = self._embeddings()
        else:
            hidden = self._packed_embeddings(words)
        mask = self._node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
        for layer in range(layers):
            hidden = self._layer(f"encoder.layer.{layer}.", hidden, mask)
        output = self._node("Identity", [hidden], "last_hidden_state")

        axes = ["batch", "sequence"]
        graph = helper.make_graph(
            self._nodes,
            title,
            [helper.make_tensor_value_info(name, TensorProto.INT64, axes) for name in inputs],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [*axes, HIDDEN])],
            self._initializers,
        )
        return helper.make_model(
            graph,
            # Four bits a value are known from version 10 on.
            ir_version=8 if words is None else 10,
            opset_imports=[
                helper.make_opsetid("", 17 if words is None else 21),
                helper.make_opsetid(CONTRIB, 1),
            ],
        )

    def _embeddings(self) -> str:
        ids = self._node("Cast", ["input_ids"], "ids", to=TensorProto.INT32)
        types = self._node("Cast", ["token_type_ids"], "types", to=TensorProto.INT32)
        prefix = "embeddings."
        tables = [
            self._matrix(prefix + name, self._weight(f"{prefix}{name}.weight"))
            for name in ("word_embeddings", "position_embeddings", "token_type_embeddings")
        ]
        return self._node(
            "EmbedLayerNormalization",
            [ids, types, *tables, *self._layer_norm(prefix + "LayerNorm")],
            "embedded",
            # The second result, which the operator insists on, is the mask in a form not used here.
            unused="mask_index",
            domain=CONTRIB,
            epsilon=LAYER_NORM_EPSILON,
        )

    def _packed_embeddings(self, words: PackedRows) -> str:
        """Return the embeddings of tokens that are all of the first type."""
        prefix = "embeddings."
        word = self._node(
            "GatherBlockQuantized",
            [
                self._stored("words", words.values, TensorProto.INT4, (len(words.values), HIDDEN)),
                "input_ids",
                self._matrix("words.scales", words.scales),
            ],
            "word",
            domain=CONTRIB,
            gather_axis=0,
            quantize_axis=1,
            block_size=HIDDEN // words.scales.shape[1],
        )
        length = self._node("Shape", ["input_ids"], "length", start=1, end=2)
        # The one type of token is added to each position, ahead of time.
        positions = self._weight(f"{prefix}position_embeddings.weight")
        table = self._matrix(
            "positions", positions + self._weight(f"{prefix}token_type_embeddings.weight")[:1]
        )
        zero = self._vector("zero", np.zeros(1, np.int64))
        position = self._node("Slice", [table, zero, length], "position")
        return self._node(
            "LayerNormalization",
            [self._node("Add", [word, position], "sum"), *self._layer_norm(prefix + "LayerNorm")],
            "embedded",
            epsilon=LAYER_NORM_EPSILON,
        )

    def _layer(self, prefix: str, hidden: str, mask: str) -> str:
        projections = [f"{prefix}attention.self.{name}" for name in ("query", "key", "value")]
        attended = self._node(
            "Attention",
            [
                hidden,
                self._matrix(prefix + "qkv", np.concatenate([self._dense(name) for name in projections], 1)),
                self._vector(
                    prefix + "qkv.bias",
                    np.concatenate([self._weight(f"{name}.bias") for name in projections]),
                ),
                mask,
            ],
            prefix + "attended",
            domain=CONTRIB,
            num_heads=HEADS,
        )
        hidden = self._add_and_norm(prefix + "attention.output", attended, hidden)
        inner = self._node(
            "BiasGelu",
            [self._multiply(prefix + "intermediate", hidden), self._bias(prefix + "intermediate")],
            prefix + "inner",
            domain=CONTRIB,
        )
        return self._add_and_norm(prefix + "output", inner, hidden)

    def _add_and_norm(self, name: str, value: str, residual: str) -> str:
        """Append LayerNorm(value · W + b + residual)."""
        return self._node(
            "SkipLayerNormalization",
            [
                self._multiply(name, value),
                residual,
                *self._layer_norm(f"{name}.LayerNorm"),
                self._bias(name),
            ],
            f"{name}.normed",
            domain=CONTRIB,
            epsilon=LAYER_NORM_EPSILON,
        )

    def _multiply(self, name: str, value: str) -> str:
        return self._node(
            "MatMul", [value, self._matrix(name, self._dense(f"{name}.dense"))], f"{name}.product"
        )

    def _bias(self, name: str) -> str:
        return self._vector(f"{name}.bias", self._weight(f"{name}.dense.bias"))

    def _layer_norm(self, name: str) -> list[str]:
        return [self._vector(f"{name}.{part}", self._weight(f"{name}.{part}")) for part in ("weight", "bias")]

    def _dense(self, name: str) -> Floats:
        # PyTorch keeps (output, input); ONNX multiplies by (input, output).
        return self._weight(f"{name}.weight").T

    def _node(
        self, operator: str, inputs: Sequence[str], output: str, *, unused: str | None = None, **options: Any
    ) -> str:
        outputs = [output] if unused is None else [output, unused]
        self._nodes.append(helper.make_node(operator, inputs, outputs, name=output, **options))
        return output

    def _vector(self, name: str, values: NDArray[Any]) -> str:
        self._initializers.append(numpy_helper.from_array(values, name))
        return name

    def _matrix(self, name: str, values: Floats) -> str:
        return self._stored(name, values.astype("<f4"), TensorProto.FLOAT, values.shape)

    def _stored(self, name: str, values: NDArray[Any], data_type: int, shape: Sequence[int]) -> str:
        content = values.tobytes()
        offset = self._data.tell()
        self._data.write(content)
        self._data.write(bytes(-len(content) % PAGE_BYTES))
        tensor = TensorProto(name=name, data_type=data_type, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", WEIGHTS_FILE), ("offset", offset), ("length", len(content))):
            tensor.external_data.add(key=key, value=str(value))
        self._initializers.append(tensor)
        return name
