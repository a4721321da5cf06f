"""Weaviate's filters, from an extent, principals and a Filter.

Weaviate cannot express every Filter. The rest is left out, so that more objects take part, never fewer:
PostgreSQL decides about proposals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from groundline_filters.tree import (
    All,
    AnyOf,
    BeginsWith,
    Contains,
    Created,
    DocumentIds,
    Exists,
    Filter,
    Inequality,
    Matches,
    Named,
    Negation,
    OneOf,
    Ordered,
    Scalar,
    SourceTypes,
    Updated,
)

from groundline_weaviate.chunks import EVERYONE, existing, holding, listing, microseconds, principal
from groundline_weaviate.wire_pb2 import Filters, FilterTarget, IntArray, TextArray

_ORDERS: Final = {
    Inequality.GT: Filters.OPERATOR_GREATER_THAN,
    Inequality.GTE: Filters.OPERATOR_GREATER_THAN_EQUAL,
    Inequality.LT: Filters.OPERATOR_LESS_THAN,
    Inequality.LTE: Filters.OPERATOR_LESS_THAN_EQUAL,
}

_EXACT_NUMBERS: Final = 2**53
"""Number from which on two numbers may have one token."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Searched partitions of one collection each, and collections in partitions that they share."""

    partition_ids: Sequence[int]
    shared_partition_ids: Sequence[int] = ()
    collection_ids: Sequence[str] = ()
    """Collections in the shared partitions."""


def condition_of(extent: Extent, principals: Sequence[str], tree: Filter | None) -> Filters:
    """Return the filter of the extent's readable and selected objects, as far as it can be expressed."""
    parts = [_within(extent), contains_any("readers", [EVERYONE, *map(principal, principals)])]
    if tree is not None:
        selected, _ = _compiled(tree)
        if selected is not None:
            parts.append(selected)
    return _all(parts)


def contains_any(name: str, values: Sequence[str] | Sequence[int]) -> Filters:
    """Return the condition that the property is one of the values, or as a list has one of them."""
    texts = [value for value in values if isinstance(value, str)]
    target = FilterTarget(property=name)
    if texts:
        return Filters(
            operator=Filters.OPERATOR_CONTAINS_ANY, target=target, value_text_array=TextArray(values=texts)
        )
    numbers = IntArray(values=[value for value in values if isinstance(value, int)])
    return Filters(operator=Filters.OPERATOR_CONTAINS_ANY, target=target, value_int_array=numbers)


def _within(extent: Extent) -> Filters:
    alternatives = []
    if extent.partition_ids:
        alternatives.append(contains_any("partition_id", extent.partition_ids))
    if extent.shared_partition_ids:
        alternatives.append(
            _all(
                [
                    contains_any("partition_id", extent.shared_partition_ids),
                    contains_any("collection_id", extent.collection_ids),
                ]
            )
        )
    return _any(alternatives)


def _all(parts: Sequence[Filters]) -> Filters:
    return parts[0] if len(parts) == 1 else Filters(operator=Filters.OPERATOR_AND, filters=parts)


def _any(parts: Sequence[Filters]) -> Filters:
    return parts[0] if len(parts) == 1 else Filters(operator=Filters.OPERATOR_OR, filters=parts)


type _Compiled = tuple[Filters | None, bool]
"""A filter that holds wherever the condition does (None: everywhere), and whether only there."""

_NOWHERE: Final = contains_any("readers", ["-"])


def _compiled(tree: Filter) -> _Compiled:
    match tree:
        case All(parts):
            compiled = [_compiled(part) for part in parts]
            held = [part for part, _ in compiled if part is not None]
            return (_all(held) if held else None), all(exact for _, exact in compiled)
        case AnyOf(()):
            return _NOWHERE, True
        case AnyOf(parts):
            compiled = [_compiled(part) for part in parts]
            held = [part for part, _ in compiled if part is not None]
            # If one part may hold everywhere, so may the whole.
            return (
                _any(held) if len(held) == len(compiled) else None,
                all(exact for _, exact in compiled),
            )
        case Negation(part):
            inner, exact = _compiled(part)
            if not exact:
                return None, False
            return (_NOWHERE if inner is None else _not(inner)), True
        case OneOf(path, values):
            tokens = [token(path, value) for value in values for token in (holding, listing)]
            return _one_of(tokens, values)
        case Contains(path, operand):
            return _one_of([listing(path, operand)], [operand])
        case Exists(path, exists):
            found = contains_any("metadata", [existing(path)])
            return (found if exists else _not(found)), True
        case DocumentIds(document_ids):
            return _among("document_id", [str(each) for each in document_ids]), True
        case SourceTypes(source_types):
            return _among("source_type", source_types), True
        case Updated(order, time):
            target = FilterTarget(property="update_microseconds")
            return Filters(operator=_ORDERS[order], target=target, value_int=microseconds(time)), True
        case Ordered() | Created() | Named() | BeginsWith() | Matches():
            return None, False


def _one_of(tokens: Sequence[str], values: Sequence[Scalar]) -> _Compiled:
    exact = all(not isinstance(value, int | float) or abs(value) < _EXACT_NUMBERS for value in values)
    return _among("metadata", tokens), exact


def _among(name: str, values: Sequence[str]) -> Filters:
    return contains_any(name, values) if values else _NOWHERE


def _not(part: Filters) -> Filters:
    return Filters(operator=Filters.OPERATOR_NOT, filters=[part])
