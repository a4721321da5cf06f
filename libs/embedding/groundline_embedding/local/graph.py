"""all-MiniLM-L6-v2 as an ONNX graph, written straight from its safetensors weights.

The graph uses onnxruntime's fused operators (domain com.microsoft): a graph of plain operators keeps, after
onnxruntime's own optimiser, four times the nodes, is not faster and takes a quarter more memory.

Matrices go to a file beside the graph, page-aligned: onnxruntime maps that file instead of reading it, so
that loading takes a tenth of a second, only the rows of the vocabulary in use take memory, and processes
on one machine share them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open

__all__ = ["GRAPH_FILE", "WEIGHTS_FILE", "write_graph"]

GRAPH_FILE: Final = "model.onnx"
WEIGHTS_FILE: Final = "model.onnx.data"

LAYERS: Final = 6
HEADS: Final = 12
HIDDEN: Final = 384
LAYER_NORM_EPSILON: Final = 1e-12

PAGE_BYTES: Final = 4096
CONTRIB: Final = "com.microsoft"


def write_graph(safetensors_file: Path, directory: Path) -> None:
    """Write GRAPH_FILE and WEIGHTS_FILE.

    Inputs: `input_ids`, `attention_mask`, `token_type_ids`, int64 of shape (batch, sequence).
    Output: `last_hidden_state`, float32 of shape (batch, sequence, 384).
    """
    with (
        safe_open(safetensors_file, framework="numpy") as weights,
        (directory / WEIGHTS_FILE).open("wb") as data,
    ):
        model = _Graph(weights, data).build()
    onnx.save_model(model, directory / GRAPH_FILE)


class _Graph:
    """Builder of nodes and parameters; each method appends and returns the name of the result."""

    def __init__(self, weights: Any, data: BinaryIO) -> None:
        self._weights = weights
        self._data = data
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[TensorProto] = []

    def build(self) -> onnx.ModelProto:
        hidden = self._embeddings()
        mask = self._node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
        for layer in range(LAYERS):
            hidden = self._layer(f"encoder.layer.{layer}.", hidden, mask)
        output = self._node("Identity", [hidden], "last_hidden_state")

        axes = ["batch", "sequence"]
        graph = helper.make_graph(
            self._nodes,
            "all-MiniLM-L6-v2",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, axes)
                for name in ("input_ids", "attention_mask", "token_type_ids")
            ],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [*axes, HIDDEN])],
            self._initializers,
        )
        return helper.make_model(
            graph,
            ir_version=8,
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)],
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

    def _dense(self, name: str) -> NDArray[np.float32]:
        # PyTorch keeps (output, input); ONNX multiplies by (input, output).
        return self._weight(f"{name}.weight").T

    def _weight(self, name: str) -> NDArray[np.float32]:
        tensor: NDArray[np.float32] = self._weights.get_tensor(name)
        return tensor

    def _node(
        self, operator: str, inputs: Sequence[str], output: str, *, unused: str | None = None, **options: Any
    ) -> str:
        outputs = [output] if unused is None else [output, unused]
        self._nodes.append(helper.make_node(operator, inputs, outputs, name=output, **options))
        return output

    def _vector(self, name: str, values: NDArray[np.float32]) -> str:
        self._initializers.append(numpy_helper.from_array(values, name))
        return name

    def _matrix(self, name: str, values: NDArray[np.float32]) -> str:
        content = values.astype("<f4").tobytes()
        offset = self._data.tell()
        self._data.write(content)
        self._data.write(bytes(-len(content) % PAGE_BYTES))
        tensor = TensorProto(
            name=name,
            data_type=TensorProto.FLOAT,
            dims=values.shape,
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (("location", WEIGHTS_FILE), ("offset", offset), ("length", len(content))):
            tensor.external_data.add(key=key, value=str(value))
        self._initializers.append(tensor)
        return name
