"""Write the trained weights as an ONNX model of 8-bit integers, with its tokenizer and label map."""

import argparse
import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from groundline_reader import CLAIM_LABELS, MAXIMUM_TOKENS
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file

type Weights = Mapping[str, NDArray[np.float32]]

LAYERS: Final = 6
HEADS: Final = 12
EPSILON: Final = 1e-12
OUTSIDE: Final = -1e4
OUTPUTS: Final[Mapping[str, list[str | int]]] = {
    "answerable": ["batch"],
    "start": ["batch", "sequence"],
    "end": ["batch", "sequence"],
    "claim": ["batch", 3],
}
FUSED: Final = "com.microsoft"


def trained_weights(model: Path, checkpoint: Path) -> Weights:
    """Return MiniLM's weights, with the running average of the trained ones in their place."""
    weights = {
        name: value.T if name.startswith("encoder.") and value.ndim == 2 else value
        for name, value in load_file(model / "model.safetensors").items()
    }
    with np.load(checkpoint, allow_pickle=False) as found:
        prefix = "['average']['"
        weights |= {name[len(prefix) : -2]: found[name] for name in found.files if name.startswith(prefix)}
    return weights


class _Graph:
    """Builder of nodes and parameters; each method appends and returns the name of the result."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[TensorProto] = []

    def build(self) -> onnx.ModelProto:
        hidden = self._embeddings()
        mask = self._node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
        for layer in range(LAYERS):
            hidden = self._layer(f"encoder.layer.{layer}.", hidden, mask)
        self._heads(hidden)
        axes = ["batch", "sequence"]
        inputs = ("input_ids", "attention_mask", "token_type_ids")
        graph = helper.make_graph(
            self._nodes,
            "groundline-reader",
            [helper.make_tensor_value_info(name, TensorProto.INT64, axes) for name in inputs],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in OUTPUTS.items()
            ],
            self._initializers,
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, ir_version=8, opset_imports=opsets)

    def _embeddings(self) -> str:
        # A row of the vocabulary is stored as integers with a scale of its own: 12 MB in place of 47.
        table = self._weights["embeddings.word_embeddings.weight"]
        scale = np.abs(table).max(1, keepdims=True) / 127
        rows = self._constant("rows", np.round(table / scale).astype(np.int8))
        scales = self._constant("scales", scale.astype(np.float32))
        integers = self._node("Gather", [rows, "input_ids"], "gathered")
        floats = self._node("Cast", [integers], "floats", to=TensorProto.FLOAT)
        tokens = self._node("Mul", [floats, self._node("Gather", [scales, "input_ids"], "scaled")], "tokens")
        types = self._constant("types", self._weights["embeddings.token_type_embeddings.weight"])
        typed = self._node("Gather", [types, "token_type_ids"], "typed")
        places = self._constant("places", self._weights["embeddings.position_embeddings.weight"])
        length = self._node("Gather", [self._node("Shape", ["input_ids"], "shape"), self._whole(1)], "length")
        zero, one = self._whole(0), self._whole(1)
        numbers = self._node("Range", [zero, length, one], "numbers")
        placed = self._node("Gather", [places, numbers], "placed")
        summed = self._node("Add", [self._node("Add", [tokens, typed], "both"), placed], "summed")
        return self._normalised("embeddings", summed)

    def _layer(self, prefix: str, hidden: str, mask: str) -> str:
        parts = [f"{prefix}attention.self.{name}" for name in ("query", "key", "value")]
        joined = [
            np.concatenate([self._weights[f"{part}.{kind}"] for part in parts], -1)
            for kind in ("weight", "bias")
        ]
        names = [self._constant(f"{prefix}qkv.{number}", value) for number, value in enumerate(joined)]
        attended = self._node(
            "Attention", [hidden, *names, mask], f"{prefix}attended", domain=FUSED, num_heads=HEADS
        )
        added = self._linear(f"{prefix}attention.output.dense", attended)
        hidden = self._normalised(
            f"{prefix}attention.output", self._node("Add", [added, hidden], f"{prefix}added")
        )
        product = self._product(f"{prefix}intermediate.dense", hidden)
        bias = self._constant(f"{prefix}inner.bias", self._weights[f"{prefix}intermediate.dense.bias"])
        inner = self._node("BiasGelu", [product, bias], f"{prefix}inner", domain=FUSED)
        added = self._linear(f"{prefix}output.dense", inner)
        return self._normalised(f"{prefix}output", self._node("Add", [added, hidden], f"{prefix}last"))

    def _heads(self, hidden: str) -> None:
        first = self._node("Gather", [hidden, self._whole(0)], "first", axis=1)
        self._node("Identity", [self._linear("claim", first)], "claim")
        span = self._linear("span", hidden)
        after = self._node(
            "Slice",
            ["attention_mask", *(self._list(value) for value in (1, 2**31, 1))],
            "after",
        )
        pads = self._constant("pads", np.array([0, 0, 0, 1], np.int64))
        followed = self._node("Pad", [after, pads], "followed")  # all but the last [SEP]
        inside = self._node("Mul", [followed, "token_type_ids"], "inside")
        shown = self._node("Cast", [inside], "shown", to=TensorProto.BOOL)
        shown = self._node("Unsqueeze", [shown, self._list(-1)], "shown_for_both")
        masked = self._node("Where", [shown, span, self._constant("outside", np.float32(OUTSIDE))], "masked")
        for number, name in enumerate(("start", "end")):
            self._node("Gather", [masked, self._whole(number)], name, axis=2)
        best = self._node("ReduceLogSumExp", [masked], "best", axes=[1], keepdims=0)
        none = self._node("Gather", [span, self._whole(0)], "none", axis=1)
        evidence = self._node(
            "ReduceMean", [self._node("Sub", [best, none], "lead")], "evidence", axes=[1], keepdims=0
        )
        said = self._node("Squeeze", [self._linear("answerable", first), self._list(1)], "said")
        self._node("Add", [said, evidence], "answerable")

    def _linear(self, name: str, value: str) -> str:
        bias = self._constant(f"{name}.b", self._weights[f"{name}.bias"])
        return self._node("Add", [self._product(name, value), bias], f"{name}.sum")

    def _product(self, name: str, value: str) -> str:
        return self._node(
            "MatMul", [value, self._constant(f"{name}.w", self._weights[f"{name}.weight"])], f"{name}.product"
        )

    def _normalised(self, name: str, value: str) -> str:
        parts = [
            self._constant(f"{name}.LayerNorm.{part}", self._weights[f"{name}.LayerNorm.{part}"])
            for part in ("weight", "bias")
        ]
        return self._node("LayerNormalization", [value, *parts], f"{name}.normed", epsilon=EPSILON, axis=-1)

    def _whole(self, value: int) -> str:
        return self._constant(f"whole.{value}", np.array(value, np.int64))

    def _list(self, value: int) -> str:
        return self._constant(f"list.{value}", np.array([value], np.int64))

    def _constant(self, name: str, value: Any) -> str:
        if all(one.name != name for one in self._initializers):
            self._initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _node(self, operator: str, inputs: Sequence[str], output: str, **options: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, **options))
        return output


def export(model: Path, checkpoint: Path, target: Path) -> None:
    """Write model.onnx, tokenizer.json, labels.json and SHA256SUMS, all or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        folder = Path(made)
        graph = _Graph(trained_weights(model, checkpoint)).build()
        onnx.checker.check_model(graph)
        onnx.save_model(graph, folder / "full.onnx")
        # Processors without VNNI add pairs of products in 16 bits: 7 bits of weight leave them room.
        quantize_dynamic(
            folder / "full.onnx",
            folder / "model.onnx",
            op_types_to_quantize=["MatMul", "Attention"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=["claim.product", "span.product", "answerable.product"],
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )
        (folder / "full.onnx").unlink()
        shutil.copyfile(model / "tokenizer.json", folder / "tokenizer.json")
        labels = {"claim": CLAIM_LABELS, "max_tokens": MAXIMUM_TOKENS}
        (folder / "labels.json").write_text(json.dumps(labels, indent=2) + "\n", encoding="utf-8")
        names = sorted(path.name for path in folder.iterdir())
        sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
        (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(folder, target)


def main() -> None:
    """Export a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of MiniLM, with model.safetensors")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    export(options.model, options.checkpoint, options.output)
    print(f"{options.output}: {(options.output / 'model.onnx').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
