"""Requests of the OpenAI API, as far as they apply here.

Published parameters that only tune a model (top_p, seed, penalties) are accepted and ignored, as clients
always send them; `ignored` lists them. So are tools that the model may leave alone: it does. Those that
would change the shape or the meaning of a reply are refused: nobody waits for a tool call that never comes.
What the API does not have is refused by name.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from groundline.v1 import options_pb2
from groundline_contracts import limits_of
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from groundline_bridge.domain.conversation import Utterance

_TEXT_PARTS: Final = ("text", "input_text", "output_text", "refusal")
_PART_MEMBERS: Final = frozenset(
    {"type", "text", "refusal", "annotations", "logprobs", "prompt_cache_breakpoint"}
)
_SPEAKERS: Final = {"developer": "system"}


def _text(content: Any) -> Any:
    """Return content as a string: itself, the texts of its parts, or ""."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        if kind not in _TEXT_PARTS or not isinstance(text, str):
            raise ValueError("only parts of text are supported")
        if unknown := sorted(part.keys() - _PART_MEMBERS):
            raise ValueError(f"a part has no field {unknown[0][:100]}")
        texts.append(text)
    return "\n".join(texts)


def _only(*harmless: Any, instead: str) -> BeforeValidator:
    """Return a validator that accepts only values without effect here."""

    def check(value: Any) -> None:
        if value is not None and value not in harmless:
            raise ValueError(instead)

    return BeforeValidator(check)


def _left_alone(choice: Any) -> None:
    """Accept a choice that lets a model call no tool."""
    allowed = choice.get("allowed_tools", choice) if isinstance(choice, dict) else {}
    mode = allowed.get("mode") if isinstance(allowed, dict) else None
    if choice not in (None, "none", "auto") and mode != "auto":
        raise ValueError("no tool is ever called: sources are found without them; send auto or none")


_NoCalls = Annotated[None, _only([], instead="calls of tools are not supported")]
_Tools = list[dict[str, Any]] | None
"""Tools that a front end offers always; which ones changes nothing."""
_ToolChoice = Annotated[None, BeforeValidator(_left_alone)]
_False = Annotated[None, _only(False, instead="not supported")]
_PlainText = Annotated[
    None, _only({"type": "text"}, instead="only text is written: leave it out, or send the type text")
]
_NoAudio = Annotated[None, _only(instead="only text is written")]
_Text = Annotated[str, BeforeValidator(_text)]


_GENERATION: Final = options_pb2.GenerationOptions
_Temperature = Annotated[float, Field(ge=0, le=limits_of(_GENERATION, "temperature").maximum)]
_Tokens = Annotated[int, Field(ge=1, le=int(limits_of(_GENERATION, "max_output_tokens").maximum))]


class OpenAiRequest(BaseModel):
    """A body, or a part of one."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    ignored: ClassVar[frozenset[str]] = frozenset()
    """Published parameters that are accepted and change nothing."""

    @model_validator(mode="before")
    @classmethod
    def _without_the_ignored(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in cls.ignored}


_IGNORED: Final = frozenset(
    {
        *("metadata", "moderation", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "safety_identifier", "service_tier", "store"),
        *("top_logprobs", "top_p", "user"),
    }
)
"""Parameters that completions and responses have in common, and that change nothing here."""


class _Message(OpenAiRequest):
    # Annotations are those of an answer that comes back as history.
    ignored = frozenset({"annotations", "name", "refusal"})

    role: Literal["system", "developer", "user", "assistant"]
    content: _Text = ""
    tool_calls: _NoCalls = None
    function_call: _NoCalls = None
    audio: _NoAudio = None

    @property
    def utterance(self) -> Utterance:
        return Utterance(_SPEAKERS.get(self.role, self.role), self.content)


class Extension(OpenAiRequest):
    """Options that the OpenAI API lacks, in the member `groundline` of a request."""

    filter: dict[str, Any] | None = None
    """As in POST /api/chat."""
    options: dict[str, Any] | None = None
    """As in POST /api/chat."""
    as_of: Annotated[str | None, Field(alias="asOf")] = None
    """As in POST /api/chat."""

    @property
    def given(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_none=True)


class _StreamOptions(OpenAiRequest):
    ignored = frozenset({"include_obfuscation"})

    include_usage: bool | None = None


class ChatCompletionRequest(OpenAiRequest):
    """Body of POST /v1/chat/completions."""

    ignored = _IGNORED | {
        *("frequency_penalty", "logit_bias", "prediction", "presence_penalty"),
        *("reasoning_effort", "seed", "verbosity", "web_search_options"),
    }

    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: _Temperature | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    n: Annotated[None, _only(1, instead="there is one answer")] = None
    stop: Annotated[
        None,
        _only([], "", [""], instead="not supported: an answer ends where it is finished, with its citations"),
    ] = None
    tools: _Tools = None
    tool_choice: _ToolChoice = None
    functions: _Tools = None
    function_call: _ToolChoice = None
    logprobs: _False = None
    audio: _NoAudio = None
    modalities: Annotated[None, _only(["text"], instead="only text is written")] = None
    response_format: _PlainText = None
    groundline: Extension = Extension()

    @property
    def utterances(self) -> Sequence[Utterance]:
        return [message.utterance for message in self.messages]

    @property
    def max_output_tokens(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def includes_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class _ResponseItem(OpenAiRequest):
    ignored = frozenset({"id", "phase", "status"})

    type: Literal["message"] | None = None
    role: Literal["system", "developer", "user", "assistant"]
    content: _Text

    @property
    def utterance(self) -> Utterance:
        return Utterance(_SPEAKERS.get(self.role, self.role), self.content)


def _items(given: Any) -> Any:
    """Return input as a list of items: a text is what the user says."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


class _TextFormat(OpenAiRequest):
    ignored = frozenset({"verbosity"})

    format: _PlainText = None


class ResponseRequest(OpenAiRequest):
    """Body of POST /v1/responses."""

    ignored = (_IGNORED - {"metadata"}) | {
        *("access_programs", "context_management", "image", "include", "max_tool_calls", "reasoning"),
        *("stream_options", "truncation"),
    }

    model: str
    input: Annotated[list[_ResponseItem], Field(min_length=1), BeforeValidator(_items)]
    instructions: str | None = None
    stream: bool | None = None
    temperature: _Temperature | None = None
    max_output_tokens: _Tokens | None = None
    metadata: dict[str, str] | None = None
    tools: _Tools = None
    tool_choice: _ToolChoice = None
    text: _TextFormat | None = None
    background: _False = None
    previous_response_id: Annotated[
        None, _only(instead="no response is stored: send the conversation as input")
    ] = None
    conversation: Annotated[None, _only(instead="no conversation is stored: send it as input")] = None
    prompt: Annotated[None, _only(instead="no prompt is stored: send it as instructions")] = None
    groundline: Extension = Extension()

    @property
    def utterances(self) -> Sequence[Utterance]:
        said = [each.utterance for each in self.input]
        return [Utterance("system", self.instructions), *said] if self.instructions else said
