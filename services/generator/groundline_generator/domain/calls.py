"""Calls of language models, in terms that every provider knows."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from groundline.v1 import chat_pb2
from groundline_runtime.errors import FailedPreconditionError

type OnWait = Callable[[chat_pb2.ModelWait], Awaitable[None]]
"""Told of a pause before it begins."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a language model.

    `prefix` opens the prompt and is the same for several calls, so that a provider can cache it; if it holds
    `cached`, the name of its cache, system and prefix are not sent again. `picture`, a JPEG file, follows the
    last message. `schema` is a JSON schema: the answer is then one JSON object that follows it.
    """

    model: str
    system: str
    messages: Sequence[chat_pb2.ChatMessage]
    prefix: str = ""
    picture: bytes = field(default=b"", repr=False)
    cached: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    schema: Mapping[str, object] | None = None
    on_wait: OnWait | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ModelFinished:
    """End of a model's stream, with the issues of its answer that the model itself knows.

    `model` is the name that the provider reports, if it does; `prompt_version` names the template used;
    `likelihood` is the probability (0 to 1) that the answer is right, if the model knows it.
    """

    finish_reason: chat_pb2.FinishReason.ValueType
    usage: chat_pb2.Usage = field(default_factory=chat_pb2.Usage)
    issues: Sequence[chat_pb2.ValidationIssue] = ()
    model: str = ""
    prompt_version: str = ""
    likelihood: float | None = None


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Models that requests may ask for; `default` is used if they name none."""

    default: str
    further: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        """Names of all, each once, the default first."""
        return tuple(dict.fromkeys((self.default, *self.further)))

    def of(self, wanted: str) -> str:
        """Return the model to use. Raises FailedPreconditionError for one that is not listed."""
        if not wanted:
            return self.default
        if wanted not in self.names:
            available = ", ".join(self.names)
            raise FailedPreconditionError(
                "MODEL_NOT_AVAILABLE",
                f"model '{wanted}' is not available; available: {available}",
                metadata={"model": wanted, "available": available},
            )
        return wanted


EXTRACTIVE: Final = ModelChoice("extractive")
"""Choice of answers where there is no language model."""

NO_MODEL: Final = ModelChoice("rules", ("extractive",))
"""Choice where rules work. A collection may name the provider that quotes: it calls no model either."""
