"""Protobuf ⇄ domain. Everything a client may get wrong is found here."""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import options_pb2, passage_pb2, retriever_service_pb2
from groundline_filters import Filter, FilterError, parse, plain
from groundline_runtime.errors import Violations

from groundline_retriever.domain import (
    Candidate,
    Chunk,
    IterativeScan,
    Mode,
    Query,
    Retrieval,
    RetrievalOptions,
)

__all__ = ["to_options", "to_query", "to_response"]

type Fields = dict[str, Any]
"""Of a message."""

KEPT_METADATA = 1000
"""Documents have many chunks, and popular ones are found again: their metadata is parsed once."""

MAX_QUERY_CHARACTERS = 8000
MAX_COLLECTIONS = 20

_COLLECTION_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

_MODES: Mapping[int, Mode | None] = {
    options_pb2.RETRIEVAL_MODE_UNSPECIFIED: None,
    options_pb2.RETRIEVAL_MODE_HYBRID: Mode.HYBRID,
    options_pb2.RETRIEVAL_MODE_SEMANTIC: Mode.SEMANTIC,
    options_pb2.RETRIEVAL_MODE_KEYWORD: Mode.KEYWORD,
}
_SCANS: Mapping[int, IterativeScan | None] = {
    options_pb2.ITERATIVE_SCAN_UNSPECIFIED: None,
    options_pb2.ITERATIVE_SCAN_OFF: IterativeScan.OFF,
    options_pb2.ITERATIVE_SCAN_STRICT_ORDER: IterativeScan.STRICT_ORDER,
    options_pb2.ITERATIVE_SCAN_RELAXED_ORDER: IterativeScan.RELAXED_ORDER,
}
_SOURCE_TYPES: Mapping[str, passage_pb2.SourceType.ValueType] = {
    "file": passage_pb2.SOURCE_TYPE_FILE,
    "object": passage_pb2.SOURCE_TYPE_OBJECT,
    "web": passage_pb2.SOURCE_TYPE_WEB,
}
_WHOLE_NUMBERS = {
    "keyword_limit": (1, 1000),
    "semantic_limit": (1, 1000),
    "ef_search": (1, 1000),
    "neighbour_chunks": (0, 10),
}
_SCORES: Mapping[str, tuple[str, Callable[[float], bool]]] = {
    "min_similarity": ("must be from -1 to 1", lambda value: -1 <= value <= 1),
    "min_bm25": ("must be 0 or more", lambda value: 0 <= value < math.inf),
}


def to_query(request: retriever_service_pb2.RetrieveRequest) -> Query:
    """The request, validated. Raises InvalidArgumentError with every wrong field."""
    violations = Violations()
    text = request.query.strip()
    if not 1 <= len(text) <= MAX_QUERY_CHARACTERS:
        violations.add("query", f"must have 1 to {MAX_QUERY_CHARACTERS} characters, has {len(text)}")
    if len(request.collection_ids) > MAX_COLLECTIONS:
        violations.add(
            "collection_ids", f"must name at most {MAX_COLLECTIONS}, names {len(request.collection_ids)}"
        )
    for position, collection_id in enumerate(request.collection_ids[:MAX_COLLECTIONS]):
        if not _COLLECTION_ID.fullmatch(collection_id):
            violations.add(
                f"collection_ids[{position}]",
                'must have 1 to 63 lower-case letters, digits, "_" and "-", beginning with a letter or digit',
            )
    _check_options(request.options, violations)
    condition = _filter(request.filter, violations)
    violations.raise_if_any()
    return Query(text, tuple(dict.fromkeys(request.collection_ids)), to_options(request.options), condition)


def to_options(message: options_pb2.RetrievalOptions) -> RetrievalOptions:
    """Options that have been validated, by the converters of this or of the collection's service."""
    return RetrievalOptions(
        mode=_MODES.get(message.mode),
        keyword_limit=message.keyword_limit if message.HasField("keyword_limit") else None,
        semantic_limit=message.semantic_limit if message.HasField("semantic_limit") else None,
        ef_search=message.ef_search if message.HasField("ef_search") else None,
        iterative_scan=_SCANS.get(message.iterative_scan),
        min_similarity=message.min_similarity if message.HasField("min_similarity") else None,
        min_bm25=message.min_bm25 if message.HasField("min_bm25") else None,
        include_vectors=message.include_vectors if message.HasField("include_vectors") else None,
        neighbour_chunks=message.neighbour_chunks if message.HasField("neighbour_chunks") else None,
    )


def to_response(retrieval: Retrieval) -> retriever_service_pb2.RetrieveResponse:
    # As fields rather than messages, which would be copied into each other: a third of the time.
    candidates: list[Any] = [_candidate(candidate) for candidate in retrieval.candidates]
    return retriever_service_pb2.RetrieveResponse(
        candidates=candidates,
        degraded=[
            passage_pb2.Degradation(component=each.component, reason=each.reason, message=each.message)
            for each in retrieval.degraded
        ],
        timings=[
            passage_pb2.StageTiming(stage=stage, duration_ms=milliseconds)
            for stage, milliseconds in retrieval.timings_ms.items()
        ],
    )


def _check_options(options: options_pb2.RetrievalOptions, violations: Violations) -> None:
    if options.mode not in _MODES:
        violations.add("options.mode", f"unknown value {options.mode}")
    if options.iterative_scan not in _SCANS:
        violations.add("options.iterative_scan", f"unknown value {options.iterative_scan}")
    for name, (least, most) in _WHOLE_NUMBERS.items():
        if options.HasField(name) and not least <= getattr(options, name) <= most:  # type: ignore[arg-type]
            violations.add(f"options.{name}", f"must be from {least} to {most}, is {getattr(options, name)}")
    for name, (rule, holds) in _SCORES.items():
        if options.HasField(name) and not holds(getattr(options, name)):  # type: ignore[arg-type]
            violations.add(f"options.{name}", f"{rule}, is {getattr(options, name):g}")


def _filter(struct: Struct, violations: Violations) -> Filter | None:
    """An empty filter is none."""
    if not struct.fields:
        return None
    try:
        return parse(plain(struct))
    except FilterError as error:
        for problem in error.problems:
            violations.add(problem.path, problem.description)
        return None


def _candidate(candidate: Candidate) -> Fields:
    fields: Fields = {"chunk": _chunk(candidate.chunk)}
    if candidate.keyword is not None:
        fields["keyword"] = candidate.keyword._asdict()
    if candidate.semantic is not None:
        fields["semantic"] = candidate.semantic._asdict()
    if candidate.chunk.embedding:
        fields["embedding"] = candidate.chunk.embedding
    if candidate.neighbours:
        fields["neighbours"] = [_chunk(chunk) for chunk in candidate.neighbours]
    return fields


def _chunk(chunk: Chunk) -> Fields:
    return {
        "chunk_id": str(chunk.chunk_id),
        "document_id": chunk.document_id,
        "collection_id": chunk.collection_id,
        "chunk_index": chunk.chunk_index,
        "text": chunk.text,
        "context": chunk.context,
        "title": chunk.title,
        "uri": chunk.uri,
        "source_type": _SOURCE_TYPES.get(chunk.source_type, passage_pb2.SOURCE_TYPE_UNSPECIFIED),
        "mime_type": chunk.mime_type,
        "start_offset": chunk.start_offset,
        "end_offset": chunk.end_offset,
        "metadata": _struct(chunk.metadata),
        "update_time": _timestamp(chunk.update_time),
    }


@lru_cache(maxsize=KEPT_METADATA)
def _struct(metadata: str) -> Struct | None:
    if metadata == "{}":
        return None
    struct = Struct()
    struct.update(json.loads(metadata))
    return struct


def _timestamp(time: datetime) -> Timestamp:
    return Timestamp(seconds=math.floor(time.timestamp()), nanos=time.microsecond * 1000)
