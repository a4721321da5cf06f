"""Requests of the OpenAI API, as far as they apply here.

Parameters that only tune a model (top_p, seed, penalties) are accepted and ignored, as clients always send
them. Those that would change the shape or the meaning of a reply are refused: nobody waits for a tool call
that never comes.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from groundline_runtime.errors import InvalidArgumentError, Violations
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from groundline_bridge.domain.conversation import Utterance

__all__ = ["ChatCompletionRequest", "Extension", "OpenAiRequest", "ResponseRequest", "parsed"]

_TEXT_PARTS: Final = ("text", "input_text", "output_text", "refusal")
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
            raise ValueError(f"only text is supported, not a part of type {kind!r}")
        texts.append(text)
    return "\n".join(texts)


def _only(*harmless: Any, instead: str) -> BeforeValidator:
    """Return a validator that accepts only values without effect here."""

    def check(value: Any) -> None:
        if value is not None and value not in harmless:
            raise ValueError(instead)

    return BeforeValidator(check)


_NoTools = Annotated[None, _only([], instead="tools are not supported: sources are found without them")]
_False = Annotated[None, _only(False, instead="not supported")]
_PlainText = Annotated[None, _only({"type": "text"}, instead="only text is written")]
_Text = Annotated[str, BeforeValidator(_text)]


class OpenAiRequest(BaseModel):
    """A body, or a part of one; unknown members are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class _ClosedRequest(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class _Message(OpenAiRequest):
    role: Literal["system", "developer", "user", "assistant"]
    content: _Text = ""
    tool_calls: _NoTools = None

    @property
    def utterance(self) -> Utterance:
        return Utterance(_SPEAKERS.get(self.role, self.role), self.content)


class Extension(_ClosedRequest):
    """Options that the OpenAI API lacks, in the member `groundline` of a request."""

    filter: dict[str, Any] | None = None
    """As in POST /api/chat."""
    options: dict[str, Any] | None = None
    """As in POST /api/chat."""

    @property
    def given(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class _StreamOptions(OpenAiRequest):
    include_usage: bool | None = None


class ChatCompletionRequest(OpenAiRequest):
    """Body of POST /v1/chat/completions."""

    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: Annotated[None, _only(1, instead="there is one answer")] = None
    stop: Annotated[None, _only([], "", instead="not supported")] = None
    tools: _NoTools = None
    functions: _NoTools = None
    logprobs: _False = None
    audio: Annotated[None, _only(instead="only text is written")] = None
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
    type: Literal["message"] | None = None
    role: Literal["system", "developer", "user", "assistant"]
    content: _Text

    @property
    def utterance(self) -> Utterance:
        return Utterance(_SPEAKERS.get(self.role, self.role), self.content)


class _TextFormat(OpenAiRequest):
    format: _PlainText = None


class ResponseRequest(OpenAiRequest):
    """Body of POST /v1/responses."""

    model: str
    input: Annotated[str, Field(min_length=1)] | Annotated[list[_ResponseItem], Field(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] | None = None
    tools: _NoTools = None
    text: _TextFormat | None = None
    background: _False = None
    previous_response_id: Annotated[
        None, _only(instead="no response is stored: send the conversation as input")
    ] = None
    conversation: Annotated[None, _only(instead="no conversation is stored: send it as input")] = None
    groundline: Extension = Extension()

    @property
    def utterances(self) -> Sequence[Utterance]:
        said = (
            [Utterance("user", self.input)]
            if isinstance(self.input, str)
            else [each.utterance for each in self.input]
        )
        return [Utterance("system", self.instructions), *said] if self.instructions else said


def parsed[R: BaseModel](kind: type[R], body: bytes) -> R:
    """Parse a body. Raises InvalidArgumentError that names every wrong field."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        violations = Violations()
        for problem in error.errors(include_url=False, include_context=False, include_input=False):
            violations.add(_path(problem["loc"]), problem["msg"].removeprefix("Value error, "))
        raise InvalidArgumentError(violations) from None


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path or "body"
