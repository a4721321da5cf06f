"""Sources of documents, and what their connectors find; values and pure functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import source_pb2

from groundline_ingestor.crawling import path_matches
from groundline_ingestor.domain.documents import GivenDocument

__all__ = [
    "Change",
    "Found",
    "Gone",
    "OrderedRun",
    "Present",
    "Reached",
    "StoredSource",
    "Unreadable",
    "changed",
    "definition_of",
    "reads_the_same",
    "takes_path",
    "uri_prefix",
    "wrong_paths",
]

_SET_BY_SERVICE: Final = (
    "source_id",
    "collection_id",
    "create_time",
    "next_run_time",
    "last_job",
    "document_count",
)
_NOT_READ_BY: Final = ("name", "interval_seconds", "is_paused")
"""Fields that say nothing of what a run reads."""
_IDENTIFIERS: Final = ("collection_id", "source_id")


@dataclass(frozen=True)
class StoredSource:
    """A source with what its runs need."""

    message: source_pb2.DocumentSource
    principals: tuple[str, ...] = ()
    """Of its creator, by whose rights runs act."""
    cursor: str = ""
    last_job_id: str = ""


@dataclass(frozen=True)
class OrderedRun:
    """A run to do; a dry run takes nothing in, and deletes and remembers nothing."""

    source: StoredSource
    is_dry_run: bool = False


@dataclass(frozen=True)
class Found:
    """A document of the source. `load` blocks, and is called only where the version is not the one known.

    It raises IngestionError where the document cannot be had.
    """

    uri: str
    version: str
    load: Callable[[], GivenDocument] = field(compare=False)
    held_bytes: int = 0
    """What it holds in memory."""


@dataclass(frozen=True)
class Present:
    """A document is still there, and was not looked at: it has not changed, by the source's own account."""

    uri: str


@dataclass(frozen=True)
class Gone:
    """A document is no longer there."""

    uri: str


@dataclass(frozen=True)
class Unreadable:
    """A document that cannot be had now; what was brought of it earlier stays."""

    uri: str
    reason: str
    """The name of an ErrorReason."""
    message: str


@dataclass(frozen=True)
class Reached:
    """All up to here was found. `is_complete`: since the beginning of this run everything was, so that
    whatever was not has gone."""

    cursor: str
    is_complete: bool = False


type Change = Found | Present | Gone | Unreadable | Reached


def definition_of(source: source_pb2.DocumentSource) -> dict[str, Any]:
    """What is stored of a source as it was given."""
    given = source_pb2.DocumentSource()
    given.CopyFrom(source)
    for name in _SET_BY_SERVICE:
        given.ClearField(name)
    return json_format.MessageToDict(given)


def wrong_paths(mask: FieldMask) -> Sequence[str]:
    """Paths of a mask that name nothing that can be changed."""
    known = set(pb.UpdateSourceRequest.DESCRIPTOR.fields_by_name) - {*_IDENTIFIERS, "update_mask"}
    return [path for path in mask.paths if path not in known]


def changed(current: source_pb2.DocumentSource, request: pb.UpdateSourceRequest) -> source_pb2.DocumentSource:
    """The source after an update: with a mask its paths, whether set or not; without one every field that is
    set."""
    given = source_pb2.DocumentSource()
    json_format.ParseDict(json_format.MessageToDict(request), given, ignore_unknown_fields=True)
    for name in _IDENTIFIERS:
        given.ClearField(name)
    mask = request.update_mask
    if not mask.paths:
        mask = FieldMask(paths=[field.name for field, _ in given.ListFields()])
        if request.HasField("is_paused"):
            mask.paths.append("is_paused")
    result = source_pb2.DocumentSource()
    result.CopyFrom(current)
    mask.MergeMessage(given, result, replace_message_field=True, replace_repeated_field=True)
    return result


def reads_the_same(before: source_pb2.DocumentSource, after: source_pb2.DocumentSource) -> bool:
    """Whether what was found of a source holds after a change of it: it reads the same, gives it the same
    uris, and says the same of it."""

    def read_by(source: source_pb2.DocumentSource) -> dict[str, Any]:
        definition = source_pb2.DocumentSource()
        json_format.ParseDict(definition_of(source), definition)
        for name in _NOT_READ_BY:
            definition.ClearField(name)
        return json_format.MessageToDict(definition)

    return read_by(before) == read_by(after) and uri_prefix(before) == uri_prefix(after)


def uri_prefix(source: source_pb2.DocumentSource) -> str:
    """What goes before a document's path to make its uri."""
    if source.uri_prefix:
        return source.uri_prefix
    match source.WhichOneof("kind"):
        case "s3":
            return f"s3://{source.s3.bucket}/{source.s3.prefix}"
        case "postgres" | "imap" | "mbox":
            return f"{source.name}/"
        case _:
            return ""


def takes_path(source: source_pb2.DocumentSource, path: str) -> bool:
    """Whether a source wants the document at this path."""
    return not _matches(source.exclude_paths, path) and (
        not source.include_paths or _matches(source.include_paths, path)
    )


def _matches(patterns: Sequence[str], path: str) -> bool:
    return any(path_matches(pattern, path) for pattern in patterns)
