"""Sources of documents; values and pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import source_pb2

from groundline_ingestor.domain.etags import entity_tag

_SET_BY_SERVICE: Final = (
    "source_id",
    "collection_id",
    "create_time",
    "next_run_time",
    "last_job",
    "document_count",
    "etag",
)
_NOT_READ_BY: Final = ("interval_seconds", "is_paused")
"""Fields that do not affect a run."""
_NAMED_BY: Final = ("postgres", "imap", "mbox", "plugin")
"""Kinds whose documents' uris begin with the source's name where they have no prefix."""
_IDENTIFIERS: Final = ("collection_id", "source_id")
_CONDITIONS: Final = ("update_mask", "dry_run", "etag")


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source with the properties that its runs need."""

    message: source_pb2.DocumentSource
    principals: tuple[str, ...] = ()
    """Principals of its creator, by whose rights runs act."""
    cursor: str = ""
    last_job_id: str = ""


@dataclass(frozen=True, slots=True)
class OrderedRun:
    """A run to do; a dry run ingests, deletes and remembers nothing."""

    source: StoredSource
    is_dry_run: bool = False


def definition_of(source: source_pb2.DocumentSource) -> dict[str, Any]:
    """Return the definition of a source as it is stored."""
    return json_format.MessageToDict(_given(source))


def etag_of(source: source_pb2.DocumentSource) -> str:
    """Return the entity tag of a source."""
    return entity_tag(_given(source))


def as_planned(source: source_pb2.DocumentSource) -> source_pb2.DocumentSource:
    """Return a source that is not created as it would be, without what it would get then."""
    planned = _given(source)
    planned.collection_id, planned.etag = source.collection_id, etag_of(source)
    return planned


def _given(source: source_pb2.DocumentSource) -> source_pb2.DocumentSource:
    """Return a source without what the service sets."""
    given = source_pb2.DocumentSource()
    given.CopyFrom(source)
    for name in _SET_BY_SERVICE:
        given.ClearField(name)
    return given


def wrong_paths(mask: FieldMask) -> Sequence[str]:
    """Return paths of a mask that name no changeable field."""
    known = set(pb.UpdateSourceRequest.DESCRIPTOR.fields_by_name) - {*_IDENTIFIERS, *_CONDITIONS}
    return [path for path in mask.paths if path not in known]


def changed(current: source_pb2.DocumentSource, request: pb.UpdateSourceRequest) -> source_pb2.DocumentSource:
    """Return the source after an update: with a mask its paths, whether set or not; without one every field
    that is set."""
    given = source_pb2.DocumentSource()
    json_format.ParseDict(json_format.MessageToDict(request), given, ignore_unknown_fields=True)
    for name in (*_IDENTIFIERS, "etag"):
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
    """Tell whether a source's documents remain valid after a change of it: it reads the same, with the same
    uris and metadata."""

    def read_by(source: source_pb2.DocumentSource) -> dict[str, Any]:
        definition = source_pb2.DocumentSource()
        json_format.ParseDict(definition_of(source), definition)
        for name in _NOT_READ_BY:
            definition.ClearField(name)
        if source.uri_prefix or source.WhichOneof("kind") not in _NAMED_BY:
            definition.ClearField("name")
        return json_format.MessageToDict(definition)

    return read_by(before) == read_by(after)


def web_source_of(crawl: pb.WebCrawl, collection_id: str) -> source_pb2.DocumentSource:
    """Return a crawl as the collector reads it: as a web site."""
    web = source_pb2.WebSource(start_url=crawl.start_url, max_pages=crawl.max_pages)
    for name in ("max_depth", "delay_seconds"):
        if crawl.HasField(name):
            setattr(web, name, getattr(crawl, name))
    return source_pb2.DocumentSource(
        collection_id=collection_id,
        name="crawl",
        web=web,
        include_paths=crawl.include_paths,
        exclude_paths=crawl.exclude_paths,
    )
