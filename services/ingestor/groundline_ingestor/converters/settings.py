"""CollectionSettings between the contract and the domain: ranges, patches, effective values."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from groundline.v1 import collection_pb2, options_pb2
from groundline_lexical import SIMPLE, languages
from groundline_runtime.errors import Violations

from groundline_ingestor.converters.common import check_principals, check_text
from groundline_ingestor.domain import (
    Chunking,
    Collection,
    CollectionChange,
    SettingChange,
    contextualization_of,
)

__all__ = [
    "DEFAULT_LANGUAGE",
    "change_of",
    "check_settings",
    "effective_settings",
    "language_of",
    "settings_json",
]

MAX_LONG_TEXT_CHARACTERS: Final = 8000
MAX_TEXT_CHARACTERS: Final = 200
MAX_MODELS: Final = 100
DEFAULT_LANGUAGE: Final = "english"

# Least and most value by message and field, as the comments in protos/ say; infinity where there is no bound.
_RANGES: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    collection_pb2.ChunkingSettings.DESCRIPTOR.full_name: {
        "chunk_size": (50, 20_000),
        "chunk_overlap": (0, 10_000),
    },
    options_pb2.RetrievalOptions.DESCRIPTOR.full_name: {
        "keyword_limit": (1, 1000),
        "semantic_limit": (1, 1000),
        "ef_search": (1, 1000),
        "min_similarity": (-1, 1),
        "min_bm25": (0, math.inf),
        "neighbour_chunks": (0, 10),
    },
    options_pb2.RerankWeights.DESCRIPTOR.full_name: {
        "semantic": (0, math.inf),
        "vector": (0, math.inf),
        "position": (0, math.inf),
        "recency": (0, math.inf),
        "type": (0, math.inf),
        "keyword": (0, math.inf),
        "proximity": (0, math.inf),
    },
    options_pb2.RerankOptions.DESCRIPTOR.full_name: {
        "top_k": (1, 100),
        "rrf_k": (1, 1000),
        "keyword_weight": (0, math.inf),
        "semantic_weight": (0, math.inf),
        "fold_similarity": (0, 1),
        "mmr_lambda": (0, 1),
        "type_priorities": (0, 1),
        "min_score": (-math.inf, math.inf),
    },
    options_pb2.GenerationOptions.DESCRIPTOR.full_name: {
        "temperature": (0, 2),
        "max_output_tokens": (1, 32_768),
        "min_relevance": (0, 1),
    },
    collection_pb2.GenerationLimits.DESCRIPTOR.full_name: {
        "max_temperature": (0, 2),
        "max_output_tokens": (1, 32_768),
        "max_top_k": (1, 100),
        "lowest_min_relevance": (0, 1),
    },
}
_LONG_TEXTS: Final = {"prompt", "system_prompt"}
_LANGUAGE: Final = re.compile(r"[a-z]{2,30}")
_SOURCE_TYPES: Final = {"file", "object", "web"}
# Parts of the settings that are stored in columns of their own.
_COLUMNS: Final = {"embedding", "lexical", "access"}


def check_settings(settings: collection_pb2.CollectionSettings, violations: Violations) -> None:
    """Add every value that is out of its range, by its path; between fields the domain checks."""
    _check_message(settings, "settings", violations)
    if settings.lexical.language and not _LANGUAGE.fullmatch(settings.lexical.language):
        violations.add(
            "settings.lexical.language", "must be a language's English name in lower case, or simple"
        )
    models = settings.generation_limits.models
    if len(models) > MAX_MODELS:
        violations.add("settings.generation_limits.models", f"must be at most {MAX_MODELS}")
    for index, model in enumerate(models[:MAX_MODELS]):
        where = f"settings.generation_limits.models[{index}]"
        check_text(model, where, violations, most=MAX_TEXT_CHARACTERS)
    for role in ("readers", "writers"):
        check_principals(getattr(settings.access, role), f"settings.access.{role}", violations)


def settings_json(settings: collection_pb2.CollectionSettings) -> dict[str, Any]:
    """What is stored: proto3 JSON of what was set, without what has columns of its own."""
    stored = json_format.MessageToDict(settings)
    return {name: value for name, value in stored.items() if name not in _COLUMNS and value != {}}


def language_of(settings: collection_pb2.CollectionSettings) -> str:
    """The lexical language that is meant: simple for one that the indexes have no stemming for, so that the
    collection shows what it gets."""
    language = settings.lexical.language or DEFAULT_LANGUAGE
    return language if language in languages() else SIMPLE


def effective_settings(collection: Collection) -> collection_pb2.CollectionSettings:
    """What is shown: what was set, with the defaults of what the collection itself decides."""
    settings = collection_pb2.CollectionSettings()
    # A field that a newer release stored must not make the collection unreadable.
    json_format.ParseDict(dict(collection.settings), settings, ignore_unknown_fields=True)
    chunking = Chunking.of(collection.settings)
    settings.chunking.strategy = collection_pb2.ChunkingStrategy.Value(chunking.strategy)
    settings.chunking.chunk_size = chunking.chunk_size
    settings.chunking.chunk_overlap = chunking.chunk_overlap
    settings.chunking.unit = collection_pb2.ChunkSizeUnit.Value(chunking.unit)
    settings.contextualization.mode = collection_pb2.ContextualizationMode.Value(
        contextualization_of(collection.settings)
    )
    settings.embedding.model = collection.partition.embedding_model
    settings.embedding.dimensions = collection.partition.dimensions
    settings.lexical.language = collection.partition.language
    if collection.readers or collection.writers:
        settings.access.readers.extend(collection.readers)
        settings.access.writers.extend(collection.writers)
    return settings


def change_of(
    name: str,
    settings: collection_pb2.CollectionSettings,
    mask: Sequence[str],
    violations: Violations,
) -> CollectionChange:
    """What an update changes: with a mask its paths, whether set or not; without one every field that is
    set."""
    paths = _mask_paths(mask, violations) if mask else _set_paths(name, settings)
    if violations:
        return CollectionChange()
    changed: dict[str, Any] = {}
    changes: list[SettingChange] = []
    for path in paths:
        match path:
            case ("name",):
                changed["name"] = name
            case ("settings", "access", *below):
                roles = below or ("readers", "writers")
                changed.update({role: tuple(getattr(settings.access, role)) for role in roles})
            case ("settings", "embedding", *_):
                # Unset by a mask means the model it has. Dimensions are output only and ignored, so that what
                # was read can be sent back.
                changed["embedding_model"] = settings.embedding.model or None
            case ("settings", "lexical", *_):
                changed["language"] = language_of(settings)
            case ("settings", *below):
                changes.append(_setting_change(settings, below))
    return CollectionChange(**changed, settings=tuple(changes))


def _check_message(message: Message, path: str, violations: Violations) -> None:
    ranges = _RANGES.get(message.DESCRIPTOR.full_name, {})
    for field, value in message.ListFields():
        where = f"{path}.{field.name}"
        if _is_map(field):
            for key, one in value.items():
                if key not in _SOURCE_TYPES:
                    violations.add(f"{where}[{key[:50]!r}]", 'must be "file", "object" or "web"')
                _check_range(one, ranges[field.name], f"{where}[{key[:50]!r}]", violations)
        elif field.message_type is not None:
            _check_message(value, where, violations)
        elif field.enum_type is not None:
            if value not in field.enum_type.values_by_number:
                violations.add(where, f"{value} is not a value of {field.enum_type.name}")
        elif field.name in ranges:
            _check_range(value, ranges[field.name], where, violations)
        elif isinstance(value, str):
            most = MAX_LONG_TEXT_CHARACTERS if field.name in _LONG_TEXTS else MAX_TEXT_CHARACTERS
            check_text(value, where, violations, most=most)


def _check_range(value: float, bounds: tuple[float, float], where: str, violations: Violations) -> None:
    least, most = bounds
    if math.isfinite(value) and least <= value <= most:
        return
    if math.isinf(least):
        violations.add(where, "must be a finite number")
    elif math.isinf(most):
        violations.add(where, f"must be a finite number of at least {least:g}")
    else:
        violations.add(where, f"must be from {least:g} to {most:g}")


def _set_paths(name: str, settings: collection_pb2.CollectionSettings) -> Iterator[tuple[str, ...]]:
    if name:
        yield ("name",)
    yield from _leaves(settings, ("settings",))


def _leaves(message: Message, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field, value in message.ListFields():
        if field.message_type is not None and not _is_map(field):
            yield from _leaves(value, (*path, field.name))
        else:
            yield (*path, field.name)


def _mask_paths(mask: Sequence[str], violations: Violations) -> list[tuple[str, ...]]:
    """The paths of a mask, "*" and "settings" spelt out; wider ones first, so that narrower ones are not
    undone."""
    paths: list[tuple[str, ...]] = []
    settings = collection_pb2.CollectionSettings.DESCRIPTOR
    for text in mask:
        path = tuple(text.split("."))
        if path in {("name",)}:
            paths.append(path)
        elif path == ("settings",):
            paths.extend(("settings", field.name) for field in settings.fields)
        elif path[0] == "settings" and _exists(settings, path[1:]):
            paths.append(path)
        else:
            violations.add("update_mask", f"{text[:100]!r} is not a path that can be changed")
    return sorted(set(paths), key=len)


def _exists(descriptor: Descriptor, path: Sequence[str]) -> bool:
    for position, name in enumerate(path):
        field = descriptor.fields_by_name.get(name)
        if field is None:
            return False
        if position + 1 == len(path):
            return True
        if field.message_type is None or _is_map(field):
            return False
        descriptor = field.message_type
    return False


def _setting_change(settings: collection_pb2.CollectionSettings, path: Sequence[str]) -> SettingChange:
    """The JSON path and value of one field; None where it is not set."""
    value: Any = json_format.MessageToDict(settings)
    descriptor: Descriptor | None = settings.DESCRIPTOR
    names: list[str] = []
    for name in path:
        assert descriptor is not None, "the path was checked"
        field = descriptor.fields_by_name[name]
        names.append(field.json_name)
        value = value.get(field.json_name) if value is not None else None
        descriptor = field.message_type
    return SettingChange(tuple(names), value)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
