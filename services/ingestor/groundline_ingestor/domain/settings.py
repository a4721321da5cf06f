"""Settings of a collection: their effective values, and changes of them."""

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from groundline.v1 import collection_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_contracts import default_of
from groundline_indexing.collections import effective_chunking, effective_mode
from groundline_lexical import SIMPLE, languages

from groundline_ingestor.domain.etags import entity_tag

_LANGUAGE: Final[str] = default_of(collection_pb2.LexicalSettings, "language")

_CHANGEABLE: Final = ("name", "settings")


def effective(settings: collection_pb2.CollectionSettings) -> collection_pb2.CollectionSettings:
    """Return the settings with the defaults of the collection's own."""
    shown = collection_pb2.CollectionSettings()
    shown.CopyFrom(settings)
    shown.chunking.CopyFrom(effective_chunking(settings))
    shown.contextualization.mode = effective_mode(settings)
    return shown


def effective_language(settings: collection_pb2.CollectionSettings) -> str:
    """Return the lexical language: simple for one without stemming in the indexes, so that the collection
    shows its actual one."""
    language = settings.lexical.language or _LANGUAGE
    return language if language in languages() else SIMPLE


def etag_of(collection: collection_pb2.Collection) -> str:
    """Return the entity tag of a collection as it is stored."""
    return entity_tag(collection_pb2.Collection(name=collection.name, settings=collection.settings))


def wrong_paths(mask: FieldMask) -> Sequence[str]:
    """Return paths of a mask that name no changeable field."""
    known = pb.UpdateCollectionRequest.DESCRIPTOR
    return [
        path
        for path in mask.paths
        if path.split(".")[0] not in _CHANGEABLE or not FieldMask(paths=[path]).IsValidForDescriptor(known)
    ]


def changed(
    current: collection_pb2.Collection, request: pb.UpdateCollectionRequest
) -> collection_pb2.Collection:
    """Return the collection after an update: with a mask its paths, whether set or not; without one every
    field that is set, down to single settings. Model and language that are unset stay as they are."""
    source = pb.UpdateCollectionRequest()
    source.CopyFrom(request)
    mask = request.update_mask
    if not mask.paths:
        mask = FieldMask(paths=_set_paths(source))
    for path in mask.paths:
        _reach(source, path)
    after = pb.UpdateCollectionRequest(name=current.name, settings=current.settings)
    mask.MergeMessage(source, after, replace_message_field=True, replace_repeated_field=True)
    after.settings.embedding.model = after.settings.embedding.model or current.settings.embedding.model
    after.settings.embedding.dimensions = current.settings.embedding.dimensions
    if after.settings.lexical.language:
        after.settings.lexical.language = effective_language(after.settings)
    else:
        after.settings.lexical.language = current.settings.lexical.language
    result = collection_pb2.Collection()
    result.CopyFrom(current)
    result.name = after.name or current.collection_id
    result.settings.CopyFrom(_pruned(after.settings))
    return result


def _set_paths(request: pb.UpdateCollectionRequest) -> Iterator[str]:
    if request.name:
        yield "name"
    yield from _leaves(request.settings, "settings")


def _leaves(message: Message, path: str) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.message_type is not None and not field.is_repeated:
            yield from _leaves(value, f"{path}.{field.name}")
        else:
            yield f"{path}.{field.name}"


def _reach(message: Message, path: str) -> None:
    """Set the messages on the way to a field: a mask skips a field whose parent is missing."""
    *parents, _ = path.split(".")
    for name in parents:
        message = getattr(message, name)
        message.SetInParent()


def _pruned(settings: collection_pb2.CollectionSettings) -> collection_pb2.CollectionSettings:
    """Return the settings without empty parts."""
    for field, value in settings.ListFields():
        if field.message_type is not None and not field.is_repeated and not value.ByteSize():
            settings.ClearField(field.name)  # type: ignore[arg-type]
    return settings
