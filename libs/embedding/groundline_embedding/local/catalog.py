"""Local models that run on a CPU: what is needed to choose among them, and to fetch them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groundline_embedding.settings import DEFAULT_MODEL

__all__ = [
    "CHECKSUMS_FILE",
    "KNOWN_MODELS",
    "MULTILINGUAL_MODEL",
    "PROMPTS_FILE",
    "KnownModel",
    "fetched_directory",
    "find_model",
]

MULTILINGUAL_MODEL: Final = "intfloat/multilingual-e5-small"
"""The choice for other languages than English: permissive, and small enough for a CPU."""

_SENTENCE_TRANSFORMERS_FILES: Final = (
    "1_Pooling/config.json",
    "config.json",
    "onnx/model.onnx",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
)

CHECKSUMS_FILE: Final = "SHA256SUMS"
"""In the directory of a fetched model, written last: a directory that has it is complete, and a model is
loaded only if its files are these."""

PROMPTS_FILE: Final = "config_sentence_transformers.json"


@dataclass(frozen=True)
class KnownModel:
    """A model, named as it is stored with collections; its repository has the same name."""

    name: str
    licence: str
    dimensions: int
    max_tokens: int
    languages: str
    megabytes: int
    """Of all its files."""
    note: str
    """What it is good for, in a clause."""
    files: Sequence[str] = ()
    """Paths in the repository; none for the one that comes with a wheel."""
    query_prompt: str = ""
    """Stands before every query, as the model was trained; `document_prompt` before every document."""
    document_prompt: str = ""


KNOWN_MODELS: Final = (
    KnownModel(
        DEFAULT_MODEL,
        "Apache-2.0",
        384,
        256,
        "English",
        91,
        "small and fast; installed with the suite, needs no network",
    ),
    KnownModel(
        MULTILINGUAL_MODEL,
        "MIT",
        384,
        512,
        "about 100",
        490,
        "the choice for other languages than English; some three times slower than the default",
        _SENTENCE_TRANSFORMERS_FILES,
        "query: ",
        "passage: ",
    ),
    KnownModel(
        "intfloat/multilingual-e5-base",
        "MIT",
        768,
        512,
        "about 100",
        1130,
        "finds somewhat more than multilingual-e5-small, at several times the cost",
        _SENTENCE_TRANSFORMERS_FILES,
        "query: ",
        "passage: ",
    ),
)


def find_model(name: str) -> KnownModel | None:
    """The known model of this name."""
    return next((model for model in KNOWN_MODELS if model.name == name), None)


def fetched_directory(cache_dir: Path, name: str) -> Path:
    """Where the files of a fetched model are kept."""
    return cache_dir / name.replace("/", "--")
