"""Evidence of answers: how they came about, and the passages that they were written from."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from groundline.v1 import chat_pb2, evidence_pb2, options_pb2, passage_pb2, retriever_service_pb2

from groundline_coordinator.domain.passages import (
    MAX_PASSAGE_CHARACTERS,
    ReadSources,
    extended_text,
    read_chunks,
    span_key,
    span_of,
)
from groundline_coordinator.domain.turns import Turn

FORMAT = "groundline/evidence/1"


def record_of(
    turn: Turn,
    queries: Sequence[str],
    status: chat_pb2.ChatStatus,
    passages: Iterable[passage_pb2.Passage],
    completed: chat_pb2.ChatCompleted,
) -> evidence_pb2.AnswerRecord:
    """Return how an answer came about. `status` tells of the rewriting."""
    options = options_pb2.ChatOptions()
    options.CopyFrom(turn.question.options)
    options.generation.CopyFrom(turn.plan.generation)
    return evidence_pb2.AnswerRecord(
        collection_ids=turn.inquiry.collection_ids,
        filter=turn.inquiry.filter if turn.question.HasField("filter") else None,
        options=options,
        queries=queries,
        rewriting_model=status.rewriting_model,
        corrections=status.corrections,
        history_count=len(turn.history),
        has_additional_context=bool(turn.question.additional_context),
        prompt_version=completed.prompt_version,
        validation=completed.validation if completed.HasField("validation") else None,
        degraded=completed.degraded,
        passages=[_served(number, passage) for number, passage in enumerate(passages, start=1)],
        trace_id=turn.started.trace_id,
        as_of=turn.inquiry.as_of,
    )


def spans_of(
    answer: Sequence[chat_pb2.Source], record: evidence_pb2.AnswerRecord | None
) -> list[tuple[chat_pb2.Source, list[retriever_service_pb2.RevisionSpan]]]:
    """Return the parts of its revision that each source was served with; of answers without a record, the
    source alone."""
    served = {each.source_number: each.spans for each in record.passages} if record else {}
    return [
        (source, [span_of(source, part) for part in served.get(source.number, (None,))])
        for source in answer
        if source.revision
    ]


def known_texts(sources: Iterable[chat_pb2.Source], read: ReadSources) -> dict[bytes, str]:
    """Return, by `span_key`, the texts of sources that were read already: as chunks of their revision, which
    take no reading of its whole text, or as parts of it."""
    return dict(read.texts) | {
        span_key(span_of(source)): chunk.text
        for source in sources
        if (chunk := read.chunks.get(source.chunk_id)) and chunk.revision == source.revision
    }


def passages_of(
    sources: Iterable[tuple[chat_pb2.Source, Sequence[retriever_service_pb2.RevisionSpan]]],
    record: evidence_pb2.AnswerRecord | None,
    texts: Mapping[bytes, str],
) -> list[evidence_pb2.EvidencePassage]:
    """Return the passages of sources with their spans. `texts` holds, by `span_key`, those that were read."""
    served = {each.source_number: each.sha256 for each in record.passages} if record else {}
    return [_passage(source.number, served.get(source.number), spans, texts) for source, spans in sources]


def _passage(
    number: int,
    served: str | None,
    spans: Iterable[retriever_service_pb2.RevisionSpan],
    texts: Mapping[bytes, str],
) -> evidence_pb2.EvidencePassage:
    parts = [texts.get(span_key(each), "") for each in spans]
    if not all(parts):
        return evidence_pb2.EvidencePassage(source_number=number)
    text = "\n".join(parts)[:MAX_PASSAGE_CHARACTERS]
    found = _sha256(text)
    return evidence_pb2.EvidencePassage(
        source_number=number, text=text, sha256=found, is_as_served=found == served
    )


def _served(number: int, passage: passage_pb2.Passage) -> evidence_pb2.ServedPassage:
    spans: list[passage_pb2.TextSpan] = []
    for chunk in read_chunks(passage):
        if spans and spans[-1].end_offset == chunk.start_offset:
            spans[-1].end_offset = chunk.end_offset
        else:
            spans.append(passage_pb2.TextSpan(start_offset=chunk.start_offset, end_offset=chunk.end_offset))
    return evidence_pb2.ServedPassage(
        source_number=number, spans=spans, sha256=_sha256(extended_text(passage))
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
