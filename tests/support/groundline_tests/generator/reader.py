"""A reader whose outputs are known: it looks for the word "kiel"."""

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

_VOCABULARY = {word: number for number, word in enumerate(["[UNK]", "[CLS]", "[SEP]", "where", "kiel", "in"])}


def _model() -> onnx.ModelProto:
    """Make a model: `answerable` is the number of "kiel" in the passage; the span begins and ends at one."""
    kiel = numpy_helper.from_array(np.array(_VOCABULARY["kiel"], np.int64), "kiel")
    claim = numpy_helper.from_array(np.array([[2.0, 0.0, 0.0]], np.float32), "supports")
    axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
    nodes = [
        helper.make_node("Equal", ["input_ids", "kiel"], ["is_kiel"]),
        helper.make_node("Cast", ["is_kiel"], ["places"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["passage"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["places", "passage"], ["start"]),
        helper.make_node("Identity", ["start"], ["end"]),
        helper.make_node("ReduceSum", ["start", "axes"], ["answerable"], keepdims=0),
        helper.make_node("ReduceSum", ["attention_mask", "axes"], ["tokens"], keepdims=1),
        helper.make_node("Cast", ["tokens"], ["lengths"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["lengths", "lengths"], ["zeros"]),
        helper.make_node("Add", ["zeros", "supports"], ["claim"]),
    ]
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["pairs", "tokens"]) for name in names]
    outputs = [helper.make_tensor_value_info("answerable", TensorProto.FLOAT, ["pairs"])]
    outputs += [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["pairs", "length"])
        for name in ("start", "end", "claim")
    ]
    graph = helper.make_graph(nodes, "looks-for-kiel", inputs, outputs, [kiel, claim, axes])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def _classifier(kind: str) -> onnx.ModelProto:
    """Make a model of another's. One of pairs takes "kiel" for support and "where" for a refutation; one of
    tokens takes each "where" for wrong, and everything else for right."""
    kiel, where = _VOCABULARY["kiel"], _VOCABULARY["where"]
    places = np.zeros((len(_VOCABULARY), 3 if kind == "pair" else 2), np.float32)
    if kind == "pair":
        places[kiel, 2], places[where, 0] = 9, 18
    else:
        places[:, 0], places[where] = 9, (0, 9)
    table = numpy_helper.from_array(places, "table")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["pairs", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["logits" if kind == "token" else "each"])]
    initializers = [table]
    shape: list[str | int] = ["pairs", "tokens", 2]
    if kind == "pair":
        shape = ["pairs", 3]
        initializers += [
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
            numpy_helper.from_array(np.array([[0, 4, 0]], np.float32), "neither"),
        ]
        nodes += [
            helper.make_node("ReduceSum", ["each", "axes"], ["sum"], keepdims=0),
            helper.make_node("Add", ["sum", "neither"], ["logits"]),
        ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, f"classifies-{kind}s", inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def write_reader(folder: Path) -> None:
    """Write a folder as the training does."""
    onnx.save_model(_model(), folder / "model.onnx")
    _write_tokenizer(folder)
    write_labels(folder, {"claim": ["supports", "refutes", "unrelated"]})


def write_classifier(folder: Path, kind: str) -> None:
    """Write a folder with another's model: a classifier of pairs, or of tokens."""
    onnx.save_model(_classifier(kind), folder / "model.onnx")
    _write_tokenizer(folder)
    labels = ["refutes", "unrelated", "supports"] if kind == "pair" else ["supports", "unrelated"]
    write_labels(folder, {kind: labels})


def _write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(WordLevel(_VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, _VOCABULARY[name]) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def write_labels(folder: Path, labels: object) -> None:
    """Write the map of labels, and the checksums of all."""
    (folder / "labels.json").write_text(json.dumps(labels))
    names = ("model.onnx", "tokenizer.json", "labels.json")
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(sums))
