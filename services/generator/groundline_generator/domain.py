"""What the generator works with: questions with numbered passages in, deltas and a checked completion out."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = [
    "Citation",
    "Completed",
    "Contexts",
    "Delta",
    "Faithfulness",
    "FinishReason",
    "GenerationOptions",
    "Issue",
    "Message",
    "ModelCall",
    "ModelFinished",
    "Passage",
    "Question",
    "Relevances",
    "Rewriting",
    "Usage",
    "Validation",
    "Verdict",
]


class FinishReason(enum.Enum):
    """Why an answer ended."""

    STOP = "stop"
    NO_ANSWER = "no_answer"
    MAX_TOKENS = "max_tokens"
    SAFETY = "safety"


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as the model sees it; `similarity` is its cosine similarity to the question, -1 to 1."""

    number: int
    text: str
    context: str = ""
    title: str = ""
    uri: str = ""
    chunk_id: str = ""
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the conversation; `role` is "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Parameters of an answer; None takes the generator's setting."""

    model: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    system_prompt: str | None = None
    min_relevance: float | None = None
    prompt_template: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question and everything it may be answered from; passages best first."""

    query: str
    passages: Sequence[Passage] = ()
    chat_history: Sequence[Message] = ()
    options: GenerationOptions = field(default_factory=GenerationOptions)
    additional_context: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read (cached ones included), read from the provider's cache, and written."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a language model, in terms that every provider knows.

    `prefix` opens the prompt and is the same for several calls, so that a provider can cache it; where it
    holds `cached`, the name of its cache, system and prefix are not sent again. `schema` is a JSON schema:
    the answer is then one JSON object that follows it.
    """

    model: str
    system: str
    messages: Sequence[Message]
    prefix: str = ""
    cached: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    schema: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """Something wrong with an answer: an UPPER_SNAKE reason and the same for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Delta:
    """Text to append to the answer; never ends within a citation marker."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelFinished:
    """The end of a model's stream, with what the model itself knows to be wrong with its answer.

    `model` is the name the provider answers by, where it tells; `prompt_version` names the template used.
    """

    finish_reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    issues: Sequence[Issue] = ()
    model: str = ""
    prompt_version: str = ""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A question that stands alone and, where it is complex, its parts; `model` is "rules" without a
    model."""

    standalone: str
    sub_queries: Sequence[str]
    model: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The texts that place a document's chunks, in the chunks' order."""

    contexts: Sequence[str]
    model: str
    usage: Usage
    prompt_version: str
    """Changes with the text of the prompt."""


@dataclass(frozen=True, slots=True)
class Relevances:
    """How relevant passages are, 0 to 1, in the passages' order."""

    relevances: Sequence[float]
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the passages support `answer[start:end]`, in code points, and why not."""

    start: int
    end: int
    supported: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Faithfulness:
    """A verdict for each sentence of an answer; `model` is "rules" when terms were compared."""

    verdicts: Sequence[Verdict]
    model: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Citation:
    """A claim and its source; offsets count code points of the answer and leave the marker out."""

    source_number: int
    start: int
    end: int
    supporting_text: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class Validation:
    """What a finished answer was checked for; every share and score lies in 0..1."""

    grounded: bool
    confidence: float
    cited_share: float
    supported_share: float
    query_relevance: float
    issues: Sequence[Issue] = ()


@dataclass(frozen=True, slots=True)
class Completed:
    """The end of an answer. `prompt_version` is empty when no model was called."""

    finish_reason: FinishReason
    usage: Usage
    citations: Sequence[Citation]
    validation: Validation
    model: str
    prompt_version: str = ""
