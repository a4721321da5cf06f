"""Which files a model is loaded from, and loading them with fastembed."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

from groundline_embedding.errors import ModelError
from groundline_embedding.local import minilm
from groundline_embedding.local.catalog import (
    CHECKSUMS_FILE,
    PROMPTS_FILE,
    fetched_directory,
    find_model,
)
from groundline_embedding.local.download import require_unchanged
from groundline_embedding.settings import DEFAULT_MODEL, EmbeddingSettings

__all__ = ["Prompts", "load", "prepare", "prompts"]

GRAPH_FILES: Final = ("model.onnx", "onnx/model.onnx")
POOLING_MODES: Final = {
    "pooling_mode_mean_tokens": PoolingType.MEAN,
    "pooling_mode_cls_token": PoolingType.CLS,
    "pooling_mode_lasttoken": PoolingType.LAST_TOKEN,
}


@dataclass(frozen=True)
class Prompts:
    """What a model wants before queries and before documents."""

    query: str = ""
    document: str = ""


# fastembed's registry of models is global to the process and refuses a name it has.
_registry = threading.Lock()


def prepare(settings: EmbeddingSettings) -> Path:
    """Make sure the model's files are there, building or downloading them; return their directory."""
    directory = _directory(settings)
    if directory is not None:
        return directory
    _open(settings.model, settings.cache_dir, lazy_load=True)
    return settings.cache_dir


def load(settings: EmbeddingSettings, threads: int) -> TextEmbedding:
    """The model, loaded, if its files are what was fetched.

    Reaches the network only for a fastembed model that is not in the cache. Raises ModelError.
    """
    directory = _directory(settings)
    if directory is None:
        return _open(settings.model, settings.cache_dir, threads=threads)
    if settings.model_dir is None and (directory / CHECKSUMS_FILE).is_file():
        require_unchanged(directory)
    name = settings.model if _is_known(settings.model) else _register(directory)
    # fastembed creates its cache directory even if it has no use for it; this one is there.
    return _open(name, directory, threads=threads, specific_model_path=str(directory))


def prompts(settings: EmbeddingSettings) -> Prompts:
    """What the model's files say stands before texts, as sentence-transformers writes it.

    Raises ModelError.
    """
    directory = _directory(settings)
    file = None if directory is None else directory / PROMPTS_FILE
    if file is None or not file.is_file():
        return Prompts()
    try:
        given = json.loads(file.read_text(encoding="utf-8")).get("prompts") or {}
        return Prompts(str(given.get("query", "")), str(given.get("document", given.get("passage", ""))))
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"{file} cannot be read ({error})") from error


def _directory(settings: EmbeddingSettings) -> Path | None:
    """Where the files are, when fastembed is not to look for them itself."""
    if settings.model_dir is not None:
        if not settings.model_dir.is_dir():
            raise ModelError(f"model_dir {settings.model_dir}: no such directory")
        return settings.model_dir
    if settings.model == DEFAULT_MODEL:
        return minilm.build(settings.cache_dir)
    fetched = fetched_directory(settings.cache_dir, settings.model)
    if (fetched / CHECKSUMS_FILE).is_file():
        return fetched
    if find_model(settings.model) is not None:
        raise ModelError(
            f"the files of {settings.model} are not in {settings.cache_dir}: "
            f"run groundline models fetch {settings.model}"
        )
    if not _is_known(settings.model):
        raise ModelError(
            f"fastembed knows no embedding model named {settings.model!r}: "
            "choose one it lists, or set model_dir to the directory of its files"
        )
    return None


def _is_known(model: str) -> bool:
    return any(known["model"].lower() == model.lower() for known in TextEmbedding.list_supported_models())


def _open(name: str, cache_dir: Path, **options: Any) -> TextEmbedding:
    try:
        return TextEmbedding(name, cache_dir=str(cache_dir), **options)
    except Exception as error:  # fastembed, its downloads, tokenizers and onnxruntime share no base class
        raise ModelError(f"cannot load embedding model {name!r}: {' '.join(str(error).split())}") from error


def _register(directory: Path) -> str:
    """Make fastembed know the sentence-transformers model in a directory; return the name it has there."""
    name = str(directory.resolve())
    graph = next((file for file in GRAPH_FILES if (directory / file).is_file()), None)
    if graph is None:
        raise ModelError(f"model_dir {directory} holds none of {', '.join(GRAPH_FILES)}")
    pooling, dimensions = _pooling(directory / "1_Pooling" / "config.json")
    with _registry:
        if not _is_known(name):
            TextEmbedding.add_custom_model(
                name,
                pooling=pooling,
                normalization=True,
                sources=ModelSource(url=directory.resolve().as_uri()),
                dim=dimensions,
                model_file=graph,
            )
    return name


def _pooling(file: Path) -> tuple[PoolingType, int]:
    """How the vectors of tokens become the one of the text, and its dimensions."""
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        dimensions = int(config["word_embedding_dimension"])
        [mode] = [mode for key, mode in POOLING_MODES.items() if config.get(key)]
    except OSError as error:
        raise ModelError(f"cannot read {file}, which tells how to pool ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{file}: word_embedding_dimension and one of {', '.join(POOLING_MODES)} are needed"
        ) from error
    return mode, dimensions
