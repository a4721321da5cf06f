"""Settings of the generator."""

from pathlib import Path
from typing import Annotated, Literal, Self

from groundline.v1 import chat_pb2
from groundline_runtime.settings import ServiceSettings
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict


class ModelPrice(BaseModel):
    """Price of a model's tokens, in US dollars for a million."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input_usd: Annotated[float, Field(ge=0)]
    output_usd: Annotated[float, Field(ge=0)]
    cached_usd: Annotated[float, Field(ge=0)] | None = None
    """Price of tokens from the provider's cache; unset, input_usd."""

    def of(self, usage: chat_pb2.Usage) -> float:
        """Return the price of a call in US dollars."""
        cached = self.input_usd if self.cached_usd is None else self.cached_usd
        read = (usage.prompt_tokens - usage.cached_tokens) * self.input_usd + usage.cached_tokens * cached
        return (read + usage.output_tokens * self.output_usd) / 1_000_000


class GeneratorSettings(ServiceSettings):
    """Settings of the generator, read from GROUNDLINE_GENERATOR_* and GROUNDLINE_*."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_GENERATOR_")

    provider: Literal["extractive", "gemini", "openai"] = "extractive"
    """Provider of answers: `extractive` quotes the passages and needs neither model nor key, `openai` is any
    OpenAI-compatible chat endpoint."""

    model: str | None = None
    """Name of the model as the provider spells it; required unless the provider is `extractive`."""

    further_models: Annotated[tuple[str, ...], NoDecode] = ()
    """Names of further models, separated by commas, that collections and requests may ask for."""

    provider_api_key: SecretStr | None = None
    """Key of the provider; not needed on Vertex AI (which takes the machine's Google credentials), nor by
    most local servers."""

    provider_base_url: str | None = None
    """Address of the provider's interface, such as http://localhost:11434/v1; unset: the provider's own."""

    vertex_project: str | None = None
    """Google Cloud project; if set, `gemini` is reached through Vertex AI."""

    vertex_location: str | None = None
    """Google Cloud location; unset: global."""

    provider_silence_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """Maximum time that a provider may send nothing, before its first token or between two."""

    provider_max_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Maximum attempts at a model call that fails before its first token, within the request's deadline."""

    provider_max_wait_seconds: Annotated[float, Field(ge=0, le=600)] = 10.0
    """Maximum total time that a call waits between its attempts and for a pause that the provider asked for;
    if that is not enough, it is refused at once, with the time to wait."""

    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    """Own prices by model, in US dollars for a million tokens, such as
    {"qwen3": {"input_usd": 0.2, "output_usd": 0.6}}; other models cost what their provider publishes."""

    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Maximum model calls of this process in any minute; unset: no limit."""

    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Maximum tokens, read and written, of this process in any minute; unset: no limit."""

    max_concurrent_calls: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Maximum model calls under way at a time in this process; further ones wait."""

    max_queued_calls: Annotated[int, Field(ge=0, le=10_000)] = 100
    """Maximum model calls that wait for these limits, or for a pause to end; more are refused."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature if neither request nor collection sets one; unset: the provider's."""

    max_output_tokens: Annotated[int, Field(ge=1, le=32_768)] = 2_048
    """Maximum tokens of an answer if neither request nor collection sets one (language models only)."""

    prompt_template: str = "default"
    """Name of the prompt template if neither request nor collection names one."""

    prompt_template_directory: Path | None = None
    """Directory of further templates, `<name>.toml`; one of the same name replaces a shipped one."""

    context_tokens: Annotated[int, Field(ge=200, le=1_000_000)] = 8_000
    """Maximum tokens (estimated) of the passages in a prompt, best first; the rest is left out."""

    document_tokens: Annotated[int, Field(ge=1_000, le=2_000_000)] = 100_000
    """Maximum tokens (estimated) of a document that is shown with its chunks; the rest is cut."""

    cache_min_tokens: Annotated[int, Field(ge=1_024)] = 4_096
    """Minimum size of a prompts' common beginning that is kept in an explicit cache (estimated tokens,
    `gemini` only)."""

    judge_answers: bool = False
    """Whether a language model checks each answer's sentences against their passages: at most one more call
    an answer."""

    judge_model: str | None = None
    """Name of another language model that judges claims, at `judge_base_url`; unset: the model of answers,
    where there is one."""

    judge_base_url: str | None = None
    """Address of an OpenAI-compatible chat endpoint for `judge_model`."""

    judge_api_key: SecretStr | None = None
    """Key of that endpoint, if it needs one."""

    min_relevance: Annotated[float, Field(ge=0, le=1)] | None = None
    """Relevance (0 to 1) of the best passage below which an answer is refused; a request may set its own.
    Unset: 0.38 for `extractive`, 0.2 for language models."""

    max_sentences: Annotated[int, Field(ge=1, le=20)] = 3
    """Maximum sentences that the extractive provider quotes; numbered steps up to twelve, unless it is 1. Of
    two questions in one each gets half of them, rounded up."""

    reader_directory: Path | None = None
    """Folder of a small model that reads: one that `training/` wrote what the extractive provider is about to
    quote, and claims; another's ONNX model with a map of its labels, claims. Needs
    groundline-generator[reader]. Unset: rules alone decide, and a language model, if there is one."""

    @field_validator("further_models", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(name for part in value.split(",") if (name := part.strip()))

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider != "extractive" and not self.model:
            raise ValueError(f"GROUNDLINE_GENERATOR_MODEL is required for the provider {self.provider}")
        if self.provider == "gemini" and not (self.provider_api_key or self.vertex_project):
            raise ValueError(
                "the provider gemini needs GROUNDLINE_GENERATOR_PROVIDER_API_KEY"
                " or GROUNDLINE_GENERATOR_VERTEX_PROJECT"
            )
        if self.judge_answers and self.provider == "extractive":
            raise ValueError("GROUNDLINE_GENERATOR_JUDGE_ANSWERS needs a language model")
        if (self.judge_model is None) != (self.judge_base_url is None):
            raise ValueError(
                "GROUNDLINE_GENERATOR_JUDGE_MODEL and GROUNDLINE_GENERATOR_JUDGE_BASE_URL are set together"
            )
        return self
