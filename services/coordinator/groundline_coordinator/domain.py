"""What the coordinator works with: requests, passages, the events of an answer, threads."""

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

__all__ = [
    "Alternative",
    "Answered",
    "ArmScore",
    "Candidate",
    "CandidateSet",
    "Chunk",
    "Citation",
    "Claim",
    "Collection",
    "Completed",
    "CutPassage",
    "Degradation",
    "Delta",
    "Event",
    "Explanation",
    "FinishReason",
    "Generated",
    "GenerationLimits",
    "HistoryMessage",
    "Issue",
    "NumberedPassage",
    "Options",
    "Page",
    "Passage",
    "Question",
    "Ranking",
    "Retrieval",
    "Rewrite",
    "RewritingMode",
    "ScoreComponent",
    "Search",
    "Searched",
    "Source",
    "SourcesFound",
    "Stage",
    "StageBegan",
    "Started",
    "StoredMessage",
    "Thread",
    "Timing",
    "Usage",
    "Validation",
    "by_one_arm",
    "estimated_tokens",
    "merged",
    "number_sources",
    "recent_history",
    "shortened",
]

SNIPPET_CHARACTERS = 400
TITLE_CHARACTERS = 120
DEFAULT_TOP_K = 8

_DENSE = re.compile(r"[^\u0000-\u04ff]+")

type Options = Mapping[str, Any]
"""Parameters of a step as the JSON object of their message: what is absent takes the step's own default."""


class FinishReason(enum.Enum):
    """Why an answer ended; the values are stored."""

    STOP = "stop"
    NO_ANSWER = "no_answer"
    MAX_TOKENS = "max_tokens"
    SAFETY = "safety"
    CANCELLED = "cancelled"


class Stage(enum.Enum):
    """A part of the work; the values name spans and timings."""

    REWRITING = "rewriting"
    RETRIEVING = "retrieving"
    RERANKING = "reranking"
    GENERATING = "generating"


class RewritingMode(enum.Enum):
    """When a question is rewritten before it is searched for."""

    AUTO = "auto"
    OFF = "off"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """A message of the conversation; `role` is "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for and where; no collections means all that the caller may read."""

    query: str
    collection_ids: Sequence[str] = ()
    retrieval: Options = field(default_factory=dict)
    rerank: Options = field(default_factory=dict)
    filter: Mapping[str, Any] = field(default_factory=dict)
    """Condition on documents, checked, as JSON; empty is none."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to answer. `chat_history` None means the thread's own; `thread_id` None, a new thread.

    With a `request_id` its answer is replayed to a retry, which must have the same `fingerprint`.
    """

    search: Search
    thread_id: str | None = None
    chat_history: Sequence[HistoryMessage] | None = None
    generation: Options = field(default_factory=dict)
    additional_context: str = ""
    rewriting: RewritingMode = RewritingMode.AUTO
    request_id: str = ""
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class GenerationLimits:
    """How far a request may depart from a collection's settings; None and no models are no limit."""

    models: Sequence[str] = ()
    max_temperature: float | None = None
    max_output_tokens: int | None = None
    max_top_k: int | None = None
    lowest_min_relevance: float | None = None
    fixed_prompt: bool = False

    def excesses(self, rerank: Options, generation: Options) -> Iterator[tuple[str, str]]:
        """Path within the request's options, and description, of each value that is beyond a limit."""
        if self.models and generation.get("model", self.models[0]) not in self.models:
            yield "generation.model", f"must be one of {', '.join(self.models)}"
        for name, path, options, most in (
            ("temperature", "generation.temperature", generation, self.max_temperature),
            ("maxOutputTokens", "generation.max_output_tokens", generation, self.max_output_tokens),
            ("topK", "rerank.top_k", rerank, self.max_top_k),
        ):
            if most is not None and options.get(name, most) > most:
                yield path, f"must be at most {most:g}"
        least = self.lowest_min_relevance
        if least is not None and generation.get("minRelevance", least) < least:
            yield "generation.min_relevance", f"must be at least {least:g}"
        for name, path in (
            ("systemPrompt", "generation.system_prompt"),
            ("promptTemplate", "generation.prompt_template"),
        ):
            if self.fixed_prompt and name in generation:
                yield path, "cannot be changed"


@dataclass(frozen=True, slots=True)
class Collection:
    """A readable collection, the defaults that it gives to requests, and what they may change."""

    collection_id: str
    rerank: Options = field(default_factory=dict)
    generation: Options = field(default_factory=dict)
    limits: GenerationLimits = field(default_factory=GenerationLimits)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored piece of a document.

    `source_type` is "file", "object", "web" or empty; offsets are code points of the document's text.
    """

    chunk_id: str
    document_id: str
    collection_id: str
    chunk_index: int
    text: str
    context: str
    title: str
    uri: str
    source_type: str
    mime_type: str
    start_offset: int
    end_offset: int
    metadata: Mapping[str, Any]
    update_time: datetime | None


@dataclass(frozen=True, slots=True)
class ArmScore:
    """Rank (from 1, within the chunk's collection) and score in one search arm."""

    rank: int
    score: float


class Candidate(Protocol):
    """A chunk that at least one arm found."""

    @property
    def chunk(self) -> Chunk: ...
    @property
    def keyword(self) -> ArmScore | None: ...
    @property
    def semantic(self) -> ArmScore | None: ...
    @property
    def neighbours(self) -> Sequence[Chunk]: ...


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """What was found for one query: the question, or a part of it."""

    query: str
    candidates: Sequence[Candidate]


@dataclass(frozen=True, slots=True)
class ScoreComponent:
    """A component of a final score and the weight it was multiplied with."""

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a passage stands where it does."""

    keyword: ArmScore | None = None
    semantic: ArmScore | None = None
    fused_score: float = 0.0
    fused_rank: int = 0
    components: Sequence[ScoreComponent] = ()
    final_score: float = 0.0


@dataclass(frozen=True, slots=True)
class Alternative:
    """A near-duplicate folded into a passage, and their similarity (0 to 1)."""

    chunk: Chunk
    similarity: float


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk in its final place."""

    chunk: Chunk
    score: float
    explanation: Explanation
    alternatives: Sequence[Alternative] = ()
    neighbours: Sequence[Chunk] = ()


@dataclass(frozen=True, slots=True)
class CutPassage:
    """A candidate that was not returned; `rule` is the contract's name of what removed it."""

    chunk_id: str
    rule: str
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Degradation:
    """What was skipped, failed or came late without failing the request."""

    component: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a stage, or a part of one such as "retrieving.embedding", took."""

    stage: str
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What the retriever found; its timings name its own parts."""

    candidates: Sequence[Candidate] = ()
    degraded: Sequence[Degradation] = ()
    timings: Sequence[Timing] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """What the reranker returned, best first."""

    passages: Sequence[Passage] = ()
    cut: Sequence[CutPassage] = ()
    degraded: Sequence[Degradation] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model read (cached ones included), took from its cache, and wrote."""

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
class Rewrite:
    """What a question became. `standalone_query` may equal it; `sub_queries` are empty for a simple one."""

    standalone_query: str
    sub_queries: Sequence[str] = ()
    model: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def queries(self) -> Sequence[str]:
        """What to search for: the standalone question, then its parts, each once."""
        return tuple(dict.fromkeys((self.standalone_query, *self.sub_queries)))


@dataclass(frozen=True, slots=True)
class NumberedPassage:
    """A passage as the generator sees it."""

    number: int
    text: str
    context: str
    title: str
    uri: str
    chunk_id: str
    similarity: float | None


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that the answer may cite as [number]."""

    number: int
    title: str
    uri: str
    source_type: str
    snippet: str
    chunk_id: str
    document_id: str
    collection_id: str
    score: float
    explanation: Explanation
    metadata: Mapping[str, Any]
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Citation:
    """A claim and its source; offsets are code points of the answer, without the marker."""

    source_number: int
    start_offset: int
    end_offset: int
    supporting_text: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that validation found: an UPPER_SNAKE reason and the same for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Validation:
    """What a finished answer was checked for; shares and scores lie in 0..1."""

    grounded: bool = False
    confidence: float = 0.0
    issues: Sequence[Issue] = ()
    cited_share: float = 0.0
    supported_share: float = 0.0
    query_relevance: float = 0.0


@dataclass(frozen=True, slots=True)
class Generated:
    """The end of the generator's stream."""

    finish_reason: FinishReason
    usage: Usage
    citations: Sequence[Citation]
    validation: Validation
    model: str
    prompt_version: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """The request is valid and work begins."""

    thread_id: str
    message_id: str
    trace_id: str


@dataclass(frozen=True, slots=True)
class StageBegan:
    """A stage begins; with retrieving, what is searched for where it is not just the question."""

    stage: Stage
    rewritten_query: str = ""
    sub_queries: Sequence[str] = ()
    rewriting_model: str = ""


@dataclass(frozen=True, slots=True)
class SourcesFound:
    """The passages that the answer may cite."""

    sources: Sequence[Source]


@dataclass(frozen=True, slots=True)
class Delta:
    """Text to append to the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The end of an answer that succeeded."""

    generated: Generated
    degraded: Sequence[Degradation]
    timings: Sequence[Timing]


type Event = Started | StageBegan | SourcesFound | Delta | Completed


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found. `query` is what the passages were ranked for: the question, or its rewrite."""

    query: str
    ranking: Ranking
    rewritten_query: str = ""
    sub_queries: Sequence[str] = ()
    rewriting_model: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole answer."""

    started: Started
    answer: str
    sources: Sequence[Source]
    completed: Completed
    rewritten_query: str = ""
    sub_queries: Sequence[str] = ()
    rewriting_model: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A request_id of one owner, taken for the answer `message_id` to one request."""

    owner: str
    request_id: str
    fingerprint: bytes
    message_id: str


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation of one owner."""

    thread_id: str
    title: str
    message_count: int
    create_time: datetime
    update_time: datetime


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a thread; sources and what follows are of assistant messages only."""

    message_id: str
    role: str
    content: str
    sources: Sequence[Source] = ()
    citations: Sequence[Citation] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason | None = None
    model: str = ""
    create_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page[T]:
    """Part of a list; `next_page_token` is empty on the last."""

    items: Sequence[T]
    next_page_token: str = ""


def merged(defaults: Options, given: Options) -> Options:
    """`defaults` with what is given in their place, objects within them likewise."""
    result = dict(defaults)
    for name, value in given.items():
        below = result.get(name)
        result[name] = (
            merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
        )
    return result


def by_one_arm(candidates: Sequence[Candidate], top_k: int) -> list[Passage]:
    """The order of the semantic arm, or of the keyword arm where that found nothing: no fusion is needed.

    Keyword scores do not compare across collections, so ranks do; ties go to the smaller chunk id. A chunk
    that is there several times counts where it stands best.
    """
    found = [(c, c.semantic) for c in candidates if c.semantic is not None]
    if found:
        found.sort(key=lambda pair: (-pair[1].score, int(pair[0].chunk.chunk_id)))
    else:
        found = [(c, c.keyword) for c in candidates if c.keyword is not None]
        found.sort(key=lambda pair: (pair[1].rank, int(pair[0].chunk.chunk_id)))
    best: dict[str, Passage] = {}
    for candidate, score in found:
        best.setdefault(candidate.chunk.chunk_id, _as_passage(candidate, score))
    return list(best.values())[:top_k]


def _as_passage(candidate: Candidate, deciding: ArmScore) -> Passage:
    return Passage(
        chunk=candidate.chunk,
        score=deciding.score,
        explanation=Explanation(
            keyword=candidate.keyword, semantic=candidate.semantic, final_score=deciding.score
        ),
        neighbours=candidate.neighbours,
    )


def without_repeats(passages: Sequence[Passage]) -> list[Passage]:
    """The passages with each chunk once: a neighbour is no passage and no better passage's neighbour."""
    shown = {passage.chunk.chunk_id for passage in passages}
    kept = []
    for passage in passages:
        neighbours = [chunk for chunk in passage.neighbours if chunk.chunk_id not in shown]
        shown.update(chunk.chunk_id for chunk in neighbours)
        kept.append(replace(passage, neighbours=neighbours) if passage.neighbours else passage)
    return kept


def extended_text(passage: Passage) -> str:
    """A passage's text with its neighbours', in document order; a line break where something is between."""
    text, end = "", 0
    for chunk in sorted((passage.chunk, *passage.neighbours), key=lambda chunk: chunk.chunk_index):
        text += chunk.text if not text or chunk.start_offset == end else f"\n{chunk.text}"
        end = chunk.end_offset
    return text


def number_sources(passages: Sequence[Passage]) -> list[Source]:
    """Passages as sources, numbered from 1 in their order."""
    return [
        Source(
            number=number,
            title=passage.chunk.title,
            uri=passage.chunk.uri,
            source_type=passage.chunk.source_type,
            snippet=shortened(passage.chunk.text, SNIPPET_CHARACTERS),
            chunk_id=passage.chunk.chunk_id,
            document_id=passage.chunk.document_id,
            collection_id=passage.chunk.collection_id,
            score=passage.score,
            explanation=passage.explanation,
            metadata=passage.chunk.metadata,
            start_offset=passage.chunk.start_offset,
            end_offset=passage.chunk.end_offset,
        )
        for number, passage in enumerate(passages, start=1)
    ]


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning up to a word's end with an ellipsis, `limit` code points at most."""
    text = text.strip()
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    if not text[limit - 1].isspace() and any(character.isspace() for character in cut):
        cut = cut.rsplit(maxsplit=1)[0]
    return cut.rstrip() + "…"


def recent_history(messages: Sequence[HistoryMessage], *, max_tokens: int) -> list[HistoryMessage]:
    """The last messages that fit, oldest first; empty ones (answers cancelled at once) are left out."""
    kept: list[HistoryMessage] = []
    for message in reversed([message for message in messages if message.content]):
        max_tokens -= estimated_tokens(message.content)
        if max_tokens < 0:
            break
        kept.append(message)
    return kept[::-1]


def estimated_tokens(text: str) -> int:
    """About as many as a model would count: one for four characters, or for one of a script such as Chinese.

    Rounded up. Tokenizers of models differ from each other by more than this estimate is off.
    """
    dense = sum(map(len, _DENSE.findall(text)))
    return dense + -(-(len(text) - dense) // 4)
