"""Settings of the generator."""

from typing import Annotated, Literal

from groundline_runtime.settings import ServiceSettings
from pydantic import Field
from pydantic_settings import SettingsConfigDict

__all__ = ["GeneratorSettings"]


class GeneratorSettings(ServiceSettings):
    """Read from GROUNDLINE_GENERATOR_* and GROUNDLINE_*."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_GENERATOR_")

    provider: Literal["extractive"] = "extractive"
    """What writes answers; `extractive` quotes the passages and needs neither model nor key."""

    min_relevance: Annotated[float, Field(ge=0, le=1)] = 0.4
    """Relevance (0 to 1) of the best sentence below which an answer is refused; a request may set its own."""

    max_sentences: Annotated[int, Field(ge=1, le=20)] = 3
    """Most sentences that the extractive provider quotes."""

    max_passage_characters: Annotated[int, Field(ge=1000, le=1_000_000)] = 100_000
    """Longest text of a passage that a request may bring, in code points."""
