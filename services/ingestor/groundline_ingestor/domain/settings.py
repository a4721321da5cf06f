"""Settings of a collection: what they come to, and changes of them."""

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from groundline.v1 import collection_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_lexical import SIMPLE, languages
from groundline_validation.rules import DEFAULT_CHUNK_OVERLAP, DEFAULT_PARENT_SIZE, default_chunk_size

__all__ = [
    "changed",
    "effective",
    "effective_chunking",
    "effective_language",
    "effective_mode",
    "llm_contextualization",
    "wrong_paths",
]

DEFAULT_LANGUAGE: Final = "english"

_CHANGEABLE: Final = ("name", "settings")


def effective(settings: collection_pb2.CollectionSettings) -> collection_pb2.CollectionSettings:
    """With the defaults of what the collection itself decides."""
    shown = collection_pb2.CollectionSettings()
    shown.CopyFrom(settings)
    shown.chunking.CopyFrom(effective_chunking(settings))
    shown.contextualization.mode = effective_mode(settings)
    return shown


def effective_chunking(settings: collection_pb2.CollectionSettings) -> collection_pb2.ChunkingSettings:
    """With the contract's defaults."""
    chosen = settings.chunking
    strategy = chosen.strategy or collection_pb2.CHUNKING_STRATEGY_RECURSIVE
    size = chosen.chunk_size if chosen.HasField("chunk_size") else default_chunk_size(strategy)
    # A small chunk_size that is set alone must not clash with the default overlap.
    overlap = DEFAULT_CHUNK_OVERLAP if size > DEFAULT_CHUNK_OVERLAP * 2 else size // 10
    parent = chosen.parent_size if chosen.HasField("parent_size") else max(DEFAULT_PARENT_SIZE, size)
    return collection_pb2.ChunkingSettings(
        strategy=strategy,
        chunk_size=size,
        chunk_overlap=chosen.chunk_overlap if chosen.HasField("chunk_overlap") else overlap,
        unit=chosen.unit or collection_pb2.CHUNK_SIZE_UNIT_CHARACTERS,
        parent_size=parent if strategy == collection_pb2.CHUNKING_STRATEGY_PARENT_CHILD else None,
    )


def effective_mode(
    settings: collection_pb2.CollectionSettings,
) -> collection_pb2.ContextualizationMode.ValueType:
    """The contextualization mode."""
    return settings.contextualization.mode or collection_pb2.CONTEXTUALIZATION_MODE_STRUCTURAL


def llm_contextualization(
    settings: collection_pb2.CollectionSettings,
) -> collection_pb2.ContextualizationSettings | None:
    """Where a language model writes the contexts, by which prompt and model."""
    is_llm = effective_mode(settings) == collection_pb2.CONTEXTUALIZATION_MODE_LLM
    return settings.contextualization if is_llm else None


def effective_language(settings: collection_pb2.CollectionSettings) -> str:
    """The lexical language: simple for one that the indexes have no stemming for, so that the collection
    shows what it gets."""
    language = settings.lexical.language or DEFAULT_LANGUAGE
    return language if language in languages() else SIMPLE


def wrong_paths(mask: FieldMask) -> Sequence[str]:
    """Paths of a mask that name nothing that can be changed."""
    known = pb.UpdateCollectionRequest.DESCRIPTOR
    return [
        path
        for path in mask.paths
        if path.split(".")[0] not in _CHANGEABLE or not FieldMask(paths=[path]).IsValidForDescriptor(known)
    ]


def changed(
    current: collection_pb2.Collection, request: pb.UpdateCollectionRequest
) -> collection_pb2.Collection:
    """The collection after an update: with a mask its paths, whether set or not; without one every field that
    is set, down to single settings. Model and language that are unset stay as they are."""
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
    """Set the messages on the way to a field: a mask passes over a field whose parent is not there."""
    *parents, _ = path.split(".")
    for name in parents:
        message = getattr(message, name)
        message.SetInParent()


def _pruned(settings: collection_pb2.CollectionSettings) -> collection_pb2.CollectionSettings:
    """Without parts in which nothing is set."""
    for field, value in settings.ListFields():
        if field.message_type is not None and not field.is_repeated and not value.ByteSize():
            settings.ClearField(field.name)  # type: ignore[arg-type]
    return settings
