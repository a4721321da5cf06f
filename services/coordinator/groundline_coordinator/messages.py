"""The contract's shared messages (chunks, passages, sources, citations, usage) and their domain forms."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any, cast

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import chat_pb2, passage_pb2

from groundline_coordinator.domain import (
    Alternative,
    ArmScore,
    Candidate,
    Chunk,
    Citation,
    Completed,
    CutPassage,
    Degradation,
    Explanation,
    FinishReason,
    Generated,
    Issue,
    Passage,
    ScoreComponent,
    Source,
    Timing,
    Usage,
    Validation,
)

__all__ = [
    "ReceivedCandidate",
    "candidate_to_proto",
    "citation_from_proto",
    "citation_to_proto",
    "completed_from_proto",
    "completed_to_proto",
    "cut_from_proto",
    "cut_to_proto",
    "degradation_from_proto",
    "degradation_to_proto",
    "finish_reason_from_proto",
    "finish_reason_to_proto",
    "passage_from_proto",
    "passage_to_proto",
    "source_from_proto",
    "source_to_proto",
    "timing_from_proto",
    "timing_to_proto",
    "usage_from_proto",
    "usage_to_proto",
    "validation_from_proto",
    "validation_to_proto",
]

_SOURCE_TYPES = {
    "": passage_pb2.SOURCE_TYPE_UNSPECIFIED,
    "file": passage_pb2.SOURCE_TYPE_FILE,
    "object": passage_pb2.SOURCE_TYPE_OBJECT,
    "web": passage_pb2.SOURCE_TYPE_WEB,
}
_SOURCE_TYPE_NAMES = {number: name for name, number in _SOURCE_TYPES.items()}

_FINISH_REASONS = {
    FinishReason.STOP: chat_pb2.FINISH_REASON_STOP,
    FinishReason.NO_ANSWER: chat_pb2.FINISH_REASON_NO_ANSWER,
    FinishReason.MAX_TOKENS: chat_pb2.FINISH_REASON_MAX_TOKENS,
    FinishReason.SAFETY: chat_pb2.FINISH_REASON_SAFETY,
    FinishReason.CANCELLED: chat_pb2.FINISH_REASON_CANCELLED,
}
_FINISH_REASONS_BY_NUMBER = {number: reason for reason, number in _FINISH_REASONS.items()}


def chunk_from_proto(message: passage_pb2.Chunk) -> Chunk:
    return Chunk(
        chunk_id=message.chunk_id,
        document_id=message.document_id,
        collection_id=message.collection_id,
        chunk_index=message.chunk_index,
        text=message.text,
        context=message.context,
        title=message.title,
        uri=message.uri,
        source_type=_SOURCE_TYPE_NAMES.get(message.source_type, ""),
        mime_type=message.mime_type,
        start_offset=message.start_offset,
        end_offset=message.end_offset,
        metadata=_mapping(message.metadata),
        update_time=message.update_time.ToDatetime(UTC) if message.HasField("update_time") else None,
    )


def chunk_to_proto(chunk: Chunk) -> passage_pb2.Chunk:
    message = passage_pb2.Chunk(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        collection_id=chunk.collection_id,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        context=chunk.context,
        title=chunk.title,
        uri=chunk.uri,
        source_type=_SOURCE_TYPES[chunk.source_type],
        mime_type=chunk.mime_type,
        start_offset=chunk.start_offset,
        end_offset=chunk.end_offset,
        metadata=_struct(chunk.metadata),
    )
    if chunk.update_time is not None:
        message.update_time.CopyFrom(_timestamp(chunk))
    return message


class ReceivedCandidate:
    """A Candidate as the retriever sent it. It is read when asked: of a hundred most only pass through."""

    __slots__ = ("message",)

    def __init__(self, message: passage_pb2.Candidate) -> None:
        self.message = message

    @property
    def chunk(self) -> Chunk:
        return chunk_from_proto(self.message.chunk)

    @property
    def keyword(self) -> ArmScore | None:
        return _arm_from_proto(self.message.keyword) if self.message.HasField("keyword") else None

    @property
    def semantic(self) -> ArmScore | None:
        return _arm_from_proto(self.message.semantic) if self.message.HasField("semantic") else None

    @property
    def neighbours(self) -> Sequence[Chunk]:
        return [chunk_from_proto(chunk) for chunk in self.message.neighbours]


def candidate_to_proto(candidate: Candidate) -> passage_pb2.Candidate:
    if isinstance(candidate, ReceivedCandidate):
        return candidate.message
    return passage_pb2.Candidate(
        chunk=chunk_to_proto(candidate.chunk),
        keyword=_arm_to_proto(candidate.keyword),
        semantic=_arm_to_proto(candidate.semantic),
        neighbours=[chunk_to_proto(chunk) for chunk in candidate.neighbours],
    )


def passage_from_proto(message: passage_pb2.Passage) -> Passage:
    return Passage(
        chunk=chunk_from_proto(message.chunk),
        score=message.score,
        explanation=_explanation_from_proto(message.explanation),
        alternatives=[
            Alternative(chunk_from_proto(alternative.chunk), alternative.similarity)
            for alternative in message.alternatives
        ],
        neighbours=[chunk_from_proto(chunk) for chunk in message.neighbours],
    )


def passage_to_proto(passage: Passage) -> passage_pb2.Passage:
    return passage_pb2.Passage(
        chunk=chunk_to_proto(passage.chunk),
        score=passage.score,
        explanation=_explanation_to_proto(passage.explanation),
        alternatives=[
            passage_pb2.Alternative(
                chunk=chunk_to_proto(alternative.chunk), similarity=alternative.similarity
            )
            for alternative in passage.alternatives
        ],
        neighbours=[chunk_to_proto(chunk) for chunk in passage.neighbours],
    )


def cut_from_proto(message: passage_pb2.CutPassage) -> CutPassage:
    return CutPassage(
        message.chunk_id,
        passage_pb2.CutRule.Name(message.rule),
        _explanation_from_proto(message.explanation),
    )


def cut_to_proto(cut: CutPassage) -> passage_pb2.CutPassage:
    return passage_pb2.CutPassage(
        chunk_id=cut.chunk_id,
        rule=passage_pb2.CutRule.Value(cut.rule),
        explanation=_explanation_to_proto(cut.explanation),
    )


def degradation_from_proto(message: passage_pb2.Degradation) -> Degradation:
    return Degradation(message.component, message.reason, message.message)


def degradation_to_proto(degradation: Degradation) -> passage_pb2.Degradation:
    return passage_pb2.Degradation(
        component=degradation.component, reason=degradation.reason, message=degradation.message
    )


def timing_from_proto(message: passage_pb2.StageTiming) -> Timing:
    return Timing(message.stage, message.duration_ms)


def timing_to_proto(timing: Timing) -> passage_pb2.StageTiming:
    return passage_pb2.StageTiming(stage=timing.stage, duration_ms=timing.duration_ms)


def source_from_proto(message: chat_pb2.Source) -> Source:
    return Source(
        number=message.number,
        title=message.title,
        uri=message.uri,
        source_type=_SOURCE_TYPE_NAMES.get(message.type, ""),
        snippet=message.snippet,
        chunk_id=message.chunk_id,
        document_id=message.document_id,
        collection_id=message.collection_id,
        score=message.score,
        explanation=_explanation_from_proto(message.explanation),
        metadata=_mapping(message.metadata),
        start_offset=message.start_offset,
        end_offset=message.end_offset,
    )


def source_to_proto(source: Source) -> chat_pb2.Source:
    return chat_pb2.Source(
        number=source.number,
        title=source.title,
        uri=source.uri,
        type=_SOURCE_TYPES[source.source_type],
        snippet=source.snippet,
        chunk_id=source.chunk_id,
        document_id=source.document_id,
        collection_id=source.collection_id,
        score=source.score,
        explanation=_explanation_to_proto(source.explanation),
        metadata=_struct(source.metadata),
        start_offset=source.start_offset,
        end_offset=source.end_offset,
    )


def citation_from_proto(message: chat_pb2.Citation) -> Citation:
    return Citation(
        message.source_number,
        message.start_offset,
        message.end_offset,
        message.supporting_text,
        message.chunk_id,
    )


def citation_to_proto(citation: Citation) -> chat_pb2.Citation:
    return chat_pb2.Citation(
        source_number=citation.source_number,
        start_offset=citation.start_offset,
        end_offset=citation.end_offset,
        supporting_text=citation.supporting_text,
        chunk_id=citation.chunk_id,
    )


def usage_from_proto(message: chat_pb2.Usage) -> Usage:
    return Usage(message.prompt_tokens, message.cached_tokens, message.output_tokens)


def usage_to_proto(usage: Usage) -> chat_pb2.Usage:
    return chat_pb2.Usage(
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
    )


def validation_from_proto(message: chat_pb2.Validation) -> Validation:
    return Validation(
        grounded=message.grounded,
        confidence=message.confidence,
        issues=[Issue(issue.reason, issue.message) for issue in message.issues],
        cited_share=message.cited_share,
        supported_share=message.supported_share,
        query_relevance=message.query_relevance,
    )


def validation_to_proto(validation: Validation) -> chat_pb2.Validation:
    return chat_pb2.Validation(
        grounded=validation.grounded,
        confidence=validation.confidence,
        issues=[
            chat_pb2.ValidationIssue(reason=issue.reason, message=issue.message)
            for issue in validation.issues
        ],
        cited_share=validation.cited_share,
        supported_share=validation.supported_share,
        query_relevance=validation.query_relevance,
    )


def completed_from_proto(message: chat_pb2.ChatCompleted) -> Completed | None:
    """None where the finish reason is one that this release does not know."""
    reason = finish_reason_from_proto(message.finish_reason)
    if reason is None:
        return None
    generated = Generated(
        finish_reason=reason,
        usage=usage_from_proto(message.usage),
        citations=[citation_from_proto(citation) for citation in message.citations],
        validation=validation_from_proto(message.validation),
        model=message.model,
        prompt_version=message.prompt_version,
    )
    return Completed(
        generated,
        degraded=[degradation_from_proto(degradation) for degradation in message.degraded],
        timings=[timing_from_proto(timing) for timing in message.timings],
    )


def completed_to_proto(completed: Completed) -> chat_pb2.ChatCompleted:
    generated = completed.generated
    return chat_pb2.ChatCompleted(
        finish_reason=finish_reason_to_proto(generated.finish_reason),
        usage=usage_to_proto(generated.usage),
        citations=[citation_to_proto(citation) for citation in generated.citations],
        validation=validation_to_proto(generated.validation),
        degraded=[degradation_to_proto(degradation) for degradation in completed.degraded],
        timings=[timing_to_proto(timing) for timing in completed.timings],
        model=generated.model,
        prompt_version=generated.prompt_version,
    )


def finish_reason_from_proto(number: int) -> FinishReason | None:
    """None for a reason that this release does not know."""
    return _FINISH_REASONS_BY_NUMBER.get(number)  # type: ignore[call-overload,no-any-return]


def finish_reason_to_proto(reason: FinishReason | None) -> chat_pb2.FinishReason.ValueType:
    return chat_pb2.FINISH_REASON_UNSPECIFIED if reason is None else _FINISH_REASONS[reason]


def _arm_from_proto(message: passage_pb2.ArmScore) -> ArmScore:
    return ArmScore(message.rank, message.score)


def _arm_to_proto(score: ArmScore | None) -> passage_pb2.ArmScore | None:
    return None if score is None else passage_pb2.ArmScore(rank=score.rank, score=score.score)


def _explanation_from_proto(message: passage_pb2.ScoreExplanation) -> Explanation:
    return Explanation(
        keyword=_arm_from_proto(message.keyword) if message.HasField("keyword") else None,
        semantic=_arm_from_proto(message.semantic) if message.HasField("semantic") else None,
        fused_score=message.fused_score,
        fused_rank=message.fused_rank,
        components=[
            ScoreComponent(component.name, component.value, component.weight)
            for component in message.components
        ],
        final_score=message.final_score,
    )


def _explanation_to_proto(explanation: Explanation) -> passage_pb2.ScoreExplanation:
    return passage_pb2.ScoreExplanation(
        keyword=_arm_to_proto(explanation.keyword),
        semantic=_arm_to_proto(explanation.semantic),
        fused_score=explanation.fused_score,
        fused_rank=explanation.fused_rank,
        components=_components(explanation.components),
        final_score=explanation.final_score,
    )


def _components(components: Iterable[ScoreComponent]) -> list[passage_pb2.ScoreComponent]:
    return [
        passage_pb2.ScoreComponent(name=component.name, value=component.value, weight=component.weight)
        for component in components
    ]


def _mapping(struct: Struct) -> Mapping[str, Any]:
    # A Struct is registered as a mapping; most chunks only pass through, so it is not unpacked.
    return cast(Mapping[str, Any], struct)


def _struct(metadata: object) -> Struct:
    if isinstance(metadata, Struct):
        return metadata
    struct = Struct()
    struct.update(dict(cast(Mapping[str, Any], metadata)))
    return struct


def _timestamp(chunk: Chunk) -> Timestamp:
    stamp = Timestamp()
    assert chunk.update_time is not None
    stamp.FromDatetime(chunk.update_time)
    return stamp
