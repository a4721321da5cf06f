"""Protobuf ⇄ domain. Everything a client may get wrong is found here."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import options_pb2, passage_pb2, reranker_service_pb2
from groundline_runtime.errors import Violations

from groundline_reranker.domain import (
    ArmScore,
    Candidate,
    CutRule,
    Fusion,
    Options,
    Passage,
    Ranking,
    Strategy,
    Weights,
)

__all__ = ["Work", "to_response", "to_work"]

MAX_QUERY_CHARACTERS = 8000
MAX_SETS = 10
MAX_CANDIDATES = 10_000
MAX_CHUNK_ID = 2**63 - 1

_CHUNK_ID = re.compile(r"0|[1-9][0-9]{0,18}")

_FUSIONS: Mapping[int, Fusion] = {
    options_pb2.FUSION_METHOD_UNSPECIFIED: Fusion.WEIGHTED,
    options_pb2.FUSION_METHOD_RRF: Fusion.RRF,
    options_pb2.FUSION_METHOD_WEIGHTED: Fusion.WEIGHTED,
}
_CUT_RULES: Mapping[CutRule, passage_pb2.CutRule.ValueType] = {
    CutRule.TOP_K: passage_pb2.CUT_RULE_TOP_K,
    CutRule.DUPLICATE: passage_pb2.CUT_RULE_DUPLICATE,
    CutRule.MIN_SCORE: passage_pb2.CUT_RULE_MIN_SCORE,
    CutRule.DIVERSITY: passage_pb2.CUT_RULE_DIVERSITY,
}
_STRATEGIES: Mapping[int, Strategy] = {
    options_pb2.RERANK_STRATEGY_UNSPECIFIED: Strategy.NONE,
    options_pb2.RERANK_STRATEGY_NONE: Strategy.NONE,
    options_pb2.RERANK_STRATEGY_WEIGHTED: Strategy.WEIGHTED,
    options_pb2.RERANK_STRATEGY_CROSS_ENCODER: Strategy.CROSS_ENCODER,
    options_pb2.RERANK_STRATEGY_API: Strategy.API,
    options_pb2.RERANK_STRATEGY_LLM: Strategy.LLM,
}
_SOURCE_TYPES: Mapping[int, str] = {
    passage_pb2.SOURCE_TYPE_FILE: "file",
    passage_pb2.SOURCE_TYPE_OBJECT: "object",
    passage_pb2.SOURCE_TYPE_WEB: "web",
}

_RANGES: Mapping[str, tuple[str, Callable[[float], bool]]] = {
    "top_k": ("must be from 1 to 100", lambda value: 1 <= value <= 100),
    "rrf_k": ("must be from 1 to 1000", lambda value: 1 <= value <= 1000),
    "keyword_weight": ("must be 0 or more", lambda value: 0 <= value < math.inf),
    "semantic_weight": ("must be 0 or more", lambda value: 0 <= value < math.inf),
    "fold_similarity": ("must be from 0 to 1", lambda value: 0 <= value <= 1),
    "mmr_lambda": ("must be from 0 to 1", lambda value: 0 <= value <= 1),
    "min_score": ("must be a number", math.isfinite),
}
_WEIGHTS = tuple(each.name for each in fields(Weights))


@dataclass(frozen=True)
class Work:
    """A validated request."""

    query: str
    candidate_sets: Sequence[Sequence[Candidate]]
    options: Options


def to_work(request: reranker_service_pb2.RerankRequest) -> Work:
    """The request, validated.

    Raises InvalidArgumentError with every wrong field.
    """
    violations = Violations()
    _check_query("query", request.query, violations)
    if len(request.candidate_sets) > MAX_SETS:
        violations.add("candidate_sets", f"must be at most {MAX_SETS}, are {len(request.candidate_sets)}")
    for position, candidate_set in enumerate(request.candidate_sets[:MAX_SETS]):
        _check_set(f"candidate_sets[{position}]", candidate_set, violations)
    _check_options(request.options, violations)
    violations.raise_if_any()
    return Work(
        request.query.strip(),
        [[_candidate(each) for each in found.candidates] for found in request.candidate_sets],
        _options(request.options),
    )


def to_response(
    ranking: Ranking, request: reranker_service_pb2.RerankRequest
) -> reranker_service_pb2.RerankResponse:
    """The ranking, with the chunks that came in the request."""
    found = {
        int(candidate.chunk.chunk_id): candidate
        for candidate_set in request.candidate_sets
        for candidate in candidate_set.candidates
    }
    return reranker_service_pb2.RerankResponse(
        passages=[
            passage_pb2.Passage(
                chunk=found[passage.chunk_id].chunk,
                score=passage.final_score,
                explanation=_explanation(passage),
                alternatives=[
                    passage_pb2.Alternative(chunk=found[each.chunk_id].chunk, similarity=each.similarity)
                    for each in passage.alternatives
                ],
                neighbours=found[passage.chunk_id].neighbours,
            )
            for passage in ranking.passages
        ],
        cut=[
            passage_pb2.CutPassage(
                chunk_id=str(each.passage.chunk_id),
                rule=_CUT_RULES[each.rule],
                explanation=_explanation(each.passage),
            )
            for each in ranking.cut
        ],
        degraded=[
            passage_pb2.Degradation(component=each.component, reason=each.reason, message=each.message)
            for each in ranking.degraded
        ],
    )


def _check_query(field: str, query: str, violations: Violations) -> None:
    length = len(query.strip())
    if not 1 <= length <= MAX_QUERY_CHARACTERS:
        violations.add(field, f"must have 1 to {MAX_QUERY_CHARACTERS} characters, has {length}")


def _check_set(field: str, candidate_set: reranker_service_pb2.CandidateSet, violations: Violations) -> None:
    if len(candidate_set.candidates) > MAX_CANDIDATES:
        violations.add(
            f"{field}.candidates", f"must be at most {MAX_CANDIDATES}, are {len(candidate_set.candidates)}"
        )
        return
    seen: set[str] = set()
    for position, candidate in enumerate(candidate_set.candidates):
        path = f"{field}.candidates[{position}]"
        chunk_id = candidate.chunk.chunk_id
        if not _CHUNK_ID.fullmatch(chunk_id) or int(chunk_id) > MAX_CHUNK_ID:
            violations.add(f"{path}.chunk.chunk_id", "must be a chunk id")
        elif chunk_id in seen:
            violations.add(f"{path}.chunk.chunk_id", f"{chunk_id} is in the set already")
        seen.add(chunk_id)
        if not candidate.HasField("keyword") and not candidate.HasField("semantic"):
            violations.add(path, "must have been found by an arm: keyword or semantic")
        for arm in ("keyword", "semantic"):
            if not candidate.HasField(arm):
                continue
            score = candidate.keyword if arm == "keyword" else candidate.semantic
            if score.rank < 1:
                violations.add(f"{path}.{arm}.rank", f"must be 1 or more, is {score.rank}")
            if not math.isfinite(score.score):
                violations.add(f"{path}.{arm}.score", "must be a number")


def _check_options(options: options_pb2.RerankOptions, violations: Violations) -> None:
    for name, (rule, holds) in _RANGES.items():
        if options.HasField(name) and not holds(getattr(options, name)):  # type: ignore[arg-type]
            violations.add(f"options.{name}", f"{rule}, is {getattr(options, name):g}")
    if options.fusion not in _FUSIONS:
        violations.add("options.fusion", f"unknown value {options.fusion}")
    if options.strategy not in _STRATEGIES:
        violations.add("options.strategy", f"unknown value {options.strategy}")
    set_weights = [
        getattr(options, name) for name in ("keyword_weight", "semantic_weight") if options.HasField(name)
    ]
    if set_weights == [0, 0]:
        violations.add("options.semantic_weight", "must not be 0 together with keyword_weight")
    for name in _WEIGHTS:
        value = getattr(options.weights, name)
        if not 0 <= value < math.inf:
            violations.add(f"options.weights.{name}", f"must be 0 or more, is {value:g}")
    for name, value in options.type_priorities.items():
        if name not in _SOURCE_TYPES.values():
            known = ", ".join(_SOURCE_TYPES.values())
            violations.add(f"options.type_priorities[{name}]", f"must be one of {known}")
        elif not 0 <= value <= 1:
            violations.add(f"options.type_priorities[{name}]", f"must be from 0 to 1, is {value:g}")


def _options(message: options_pb2.RerankOptions) -> Options:
    default = Options()
    return Options(
        top_k=message.top_k or default.top_k,
        fusion=_FUSIONS[message.fusion],
        rrf_k=message.rrf_k or default.rrf_k,
        keyword_weight=message.keyword_weight if message.HasField("keyword_weight") else None,
        semantic_weight=message.semantic_weight if message.HasField("semantic_weight") else None,
        fold_similarity=message.fold_similarity
        if message.HasField("fold_similarity")
        else default.fold_similarity,
        strategy=_STRATEGIES[message.strategy],
        weights=Weights(
            **{
                name: getattr(message.weights, name)
                for name in _WEIGHTS
                if message.weights.HasField(name)  # type: ignore[arg-type]
            }
        ),
        type_priorities=dict(message.type_priorities),
        model=message.model or None,
        mmr_lambda=message.mmr_lambda if message.HasField("mmr_lambda") else None,
        min_score=message.min_score if message.HasField("min_score") else None,
        include_cut=message.include_cut,
    )


def _candidate(message: passage_pb2.Candidate) -> Candidate:
    chunk = message.chunk
    return Candidate(
        chunk_id=int(chunk.chunk_id),
        collection_id=chunk.collection_id,
        text=chunk.text,
        keyword=_arm_score(message.keyword) if message.HasField("keyword") else None,
        semantic=_arm_score(message.semantic) if message.HasField("semantic") else None,
        embedding=tuple(message.embedding),
        context=chunk.context,
        title=chunk.title,
        source_type=_SOURCE_TYPES.get(chunk.source_type, ""),
        chunk_index=max(chunk.chunk_index, 0),
        update_time=_instant(chunk.update_time) if chunk.HasField("update_time") else None,
    )


def _instant(timestamp: Timestamp) -> datetime:
    """Timestamp's own conversion takes ten times as long, and a request holds a hundred."""
    return datetime.fromtimestamp(timestamp.seconds + timestamp.nanos / 1e9, UTC)


def _arm_score(message: passage_pb2.ArmScore) -> ArmScore:
    return ArmScore(message.rank, message.score)


def _explanation(passage: Passage) -> passage_pb2.ScoreExplanation:
    return passage_pb2.ScoreExplanation(
        keyword=_arm_score_message(passage.keyword),
        semantic=_arm_score_message(passage.semantic),
        fused_score=passage.fused_score,
        fused_rank=passage.fused_rank,
        components=[
            passage_pb2.ScoreComponent(name=each.name, value=each.value, weight=each.weight)
            for each in passage.components
        ],
        final_score=passage.final_score,
    )


def _arm_score_message(score: ArmScore | None) -> passage_pb2.ArmScore | None:
    return None if score is None else passage_pb2.ArmScore(rank=score.rank, score=score.score)
