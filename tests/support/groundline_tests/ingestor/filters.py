"""What a filter's tree means, without SQL."""

from collections.abc import Mapping
from datetime import UTC
from typing import Any
from uuid import UUID

from groundline.v1 import document_pb2, passage_pb2
from groundline_filters import Filter
from groundline_filters.tree import (
    All,
    AnyOf,
    BeginsWith,
    Contains,
    Created,
    DocumentIds,
    Exists,
    Named,
    Negation,
    OneOf,
    Order,
    Ordered,
    Path,
    SourceTypes,
    Updated,
)

__all__ = ["is_selected"]

_MISSING = object()


def is_selected(document: document_pb2.Document, metadata: Mapping[str, Any], tree: Filter) -> bool:
    """Whether a filter holds for a document."""
    match tree:
        case All(parts):
            return all(is_selected(document, metadata, part) for part in parts)
        case AnyOf(parts):
            return any(is_selected(document, metadata, part) for part in parts)
        case Negation(part):
            return not is_selected(document, metadata, part)
        case OneOf(path, values):
            return any(_equals(_at(metadata, path), value) for value in values)
        case Ordered(path, order, operand):
            value = _at(metadata, path)
            is_ordered = (_is_number(value) and _is_number(operand)) or type(value) is type(operand) is str
            return is_ordered and _stands(order, value, operand)
        case Exists(path, exists):
            return (_at(metadata, path) is not _MISSING) == exists
        case Contains(path, operand):
            value = _at(metadata, path)
            return isinstance(value, list) and any(_equals(one, operand) for one in value)
        case DocumentIds(document_ids):
            return UUID(document.document_id) in document_ids
        case SourceTypes(source_types):
            name = passage_pb2.SourceType.Name(document.source_type)
            return name.removeprefix("SOURCE_TYPE_").lower() in source_types
        case Updated(order, time):
            return _stands(order, document.update_time.ToDatetime(tzinfo=UTC), time)
        case Created(order, time):
            return _stands(order, document.create_time.ToDatetime(tzinfo=UTC), time)
        case Named(text, values):
            return getattr(document, text.value) in values
        case BeginsWith(text, prefix):
            value = getattr(document, text.value)
            return isinstance(value, str) and value.startswith(prefix)


def _at(value: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _equals(value: Any, operand: Any) -> bool:
    return value == operand and isinstance(value, bool) == isinstance(operand, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _stands(order: Order, value: Any, operand: Any) -> bool:
    match order:
        case Order.GT:
            return bool(value > operand)
        case Order.GTE:
            return bool(value >= operand)
        case Order.LT:
            return bool(value < operand)
        case Order.LTE:
            return bool(value <= operand)
