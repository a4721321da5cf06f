"""What ranking works with: candidates, options, passages and why they stand where they do."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

__all__ = [
    "Alternative",
    "ArmScore",
    "Candidate",
    "Component",
    "Cut",
    "CutRule",
    "Degradation",
    "Fusion",
    "Options",
    "Passage",
    "Ranking",
    "Strategy",
    "Weights",
]


class Fusion(enum.Enum):
    RRF = "rrf"
    WEIGHTED = "weighted"


class Strategy(enum.Enum):
    """Values name the component that a model's score becomes in explanations."""

    NONE = "none"
    WEIGHTED = "weighted"
    CROSS_ENCODER = "cross_encoder"
    API = "api"
    LLM = "llm"


class CutRule(enum.Enum):
    TOP_K = "top_k"
    DUPLICATE = "duplicate"
    MIN_SCORE = "min_score"
    DIVERSITY = "diversity"


@dataclass(frozen=True, slots=True)
class Weights:
    """Of the weighted strategy's components, each 0 or more; 0 leaves a component out."""

    semantic: float = 0.4
    vector: float = 0.4
    position: float = 0.2
    recency: float = 0.0
    type: float = 0.0
    keyword: float = 0.0
    proximity: float = 0.0


@dataclass(frozen=True, slots=True)
class Options:
    """`keyword_weight` and `semantic_weight` None: those of the fusion method, see fusion.DEFAULT_WEIGHTS."""

    top_k: int = 8
    fusion: Fusion = Fusion.WEIGHTED
    rrf_k: int = 60
    keyword_weight: float | None = None
    semantic_weight: float | None = None
    fold_similarity: float = 0.9
    strategy: Strategy = Strategy.NONE
    weights: Weights = field(default_factory=Weights)
    type_priorities: Mapping[str, float] = field(default_factory=dict)
    model: str | None = None
    mmr_lambda: float | None = None
    min_score: float | None = None
    include_cut: bool = False


@dataclass(frozen=True, slots=True)
class ArmScore:
    """Rank (from 1) and score within an arm's list of one collection."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that at least one arm found. `embedding` is empty where it was not included."""

    chunk_id: int
    collection_id: str
    text: str
    keyword: ArmScore | None = None
    semantic: ArmScore | None = None
    embedding: Sequence[float] = ()
    context: str = ""
    title: str = ""
    source_type: str = ""
    chunk_index: int = 0
    update_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """A near-duplicate, and its similarity (0 to 1) to the passage it was folded into."""

    chunk_id: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a final score: its value and the weight it was multiplied with."""

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk in its place, and why; the arms' scores are those of its best rank in any set."""

    chunk_id: int
    keyword: ArmScore | None
    semantic: ArmScore | None
    fused_score: float
    fused_rank: int
    alternatives: tuple[Alternative, ...] = ()
    components: tuple[Component, ...] = ()
    final_score: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    passage: Passage
    rule: CutRule


@dataclass(frozen=True, slots=True)
class Degradation:
    """A strategy that failed or was late: component, UPPER_SNAKE reason, text for people."""

    component: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """Best first; what was cut in the order of fusion, where it was asked for."""

    passages: Sequence[Passage]
    cut: Sequence[Cut] = ()
    degraded: Sequence[Degradation] = ()
