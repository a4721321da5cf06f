"""Compiler of filters, from a tree to an SQL condition. It is never NULL, so that NOT is the opposite; every
value is a parameter."""

import json
from collections.abc import Callable, Sequence
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
    Matches,
    Named,
    NamingField,
    Negation,
    OneOf,
    Ordered,
    Path,
    Scalar,
    SourceTypes,
    Updated,
)

INDEXED_VALUES: Final = 8
"""Maximum values of a list that are looked up one by one in the index; longer lists are compared with the
value at the path."""


@dataclass(frozen=True, slots=True)
class Columns:
    """SQL expressions of the columns that a filter reads: uuid, text, timestamptz and jsonb; none may be
    NULL.

    The rows are documents, or with `documents` chunks: then that is the table of their documents, in which
    columns that chunks do not repeat (uri, title, MIME type, container, time of creation) are looked up.
    """

    document_id: str = "document_id"
    source_type: str = "source_type"
    update_time: str = "update_time"
    metadata: str = "metadata"
    documents: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A boolean SQL expression and its arguments, in the order of their parameters (asyncpg's types, none of
    them jsonb)."""

    text: str
    arguments: Sequence[object]


def compile_sql(tree: Filter, columns: Columns, *, first_parameter: int) -> Condition:
    """Compile a filter; its parameters are `$first_parameter` and on.

    Equal shapes give equal texts, so that prepared statements are reused.
    """
    compiler = _Compiler(columns, first_parameter)
    return Condition(compiler.expression(tree), tuple(compiler.arguments))


class _Compiler:
    def __init__(self, columns: Columns, first_parameter: int) -> None:
        self.arguments: list[object] = []
        self._columns = columns
        self._first_parameter = first_parameter

    def expression(self, tree: Filter) -> str:
        match tree:
            case All(parts):
                return self._joined(parts, " AND ", "true")
            case AnyOf(parts):
                return self._joined(parts, " OR ", "false")
            case Negation(part):
                return f"NOT {self.expression(part)}"
            # By containment, which an index on the metadata answers; a few values are looked up one by one,
            # as it does not support a list of them.
            case OneOf(path, values) if 0 < len(values) <= INDEXED_VALUES:
                held = (self._holding(path, each) for value in values for each in (value, [value]))
                return f"({' OR '.join(held)})"
            case OneOf(path, values):
                encoded = self._parameter([_encoded(value) for value in values], "text[]::jsonb[]")
                return self._of_any(self._value(path), lambda value: f"{value} = ANY ({encoded})")
            case Ordered(path, order, str() as operand):
                # In jsonb's own order strings follow the database's collation.
                at, text = self._value(path), self._parameter(operand, "text")
                return f"""(coalesce(jsonb_typeof({at}) = 'string', false)
                    AND ({at} #>> '{{}}') COLLATE "C" {order.value} {text})"""
            case Ordered(path, order, operand):
                at = self._value(path)
                return (
                    f"(coalesce(jsonb_typeof({at}) = 'number', false)"
                    f" AND {at} {order.value} {self._json(operand)})"
                )
            case Exists(path, exists):
                return f"({self._value(path)} IS {'NOT ' if exists else ''}NULL)"
            case Contains(path, operand):
                return self._holding(path, [operand])
            case DocumentIds(document_ids):
                return f"({self._columns.document_id} = ANY ({self._parameter(document_ids, 'uuid[]')}))"
            case SourceTypes(source_types):
                return f"({self._columns.source_type} = ANY ({self._parameter(source_types, 'text[]')}))"
            case Updated(order, time):
                return f"({self._columns.update_time} {order.value} {self._parameter(time, 'timestamptz')})"
            case Created(order, time):
                return self._of_document(f"create_time {order.value} {self._parameter(time, 'timestamptz')}")
            case Named(text, values):
                return self._of_document(f"{text.value} = ANY ({self._parameter(values, 'text[]')})")
            case BeginsWith(text, prefix):
                return self._of_string(text, f"^@ {self._parameter(prefix, 'text')}")
            case Matches(text, pattern):
                return self._of_string(text, f"""COLLATE "C" ~ {self._parameter(pattern, "text")}""")

    def _joined(self, parts: Sequence[Filter], operator: str, empty: str) -> str:
        return f"({operator.join(map(self.expression, parts))})" if parts else empty

    def _of_document(self, condition: str) -> str:
        """Return a condition on columns that only documents have."""
        if not self._columns.documents:
            return f"({condition})"
        # IS TRUE keeps it from becoming a join: the documents are found once, and looked up for each row.
        found = f"SELECT document_id FROM {self._columns.documents} WHERE {condition}"  # noqa: S608 - no value
        return f"(({self._columns.document_id} IN ({found})) IS TRUE)"

    def _of_string(self, text: NamingField | Path, condition: str) -> str:
        """Return a condition on a text of documents, or on strings in metadata."""
        if isinstance(text, NamingField):
            return self._of_document(f"{text.value} {condition}")
        return self._of_any(
            self._value(text),
            lambda value: f"jsonb_typeof({value}) = 'string' AND ({value} #>> '{{}}') {condition}",
        )

    def _of_any(self, value: str, condition: Callable[[str], str]) -> str:
        """Return a condition on a value of metadata, or on any element where it is a list."""
        # IS TRUE, not coalesce: the planner knows that it selects as few rows as the comparison does. Not one
        # EXISTS for both, of which it would guess that half of the rows have it.
        return f"""((({condition(value)}) IS TRUE) OR (jsonb_typeof({value}) = 'array') IS TRUE AND EXISTS (
            SELECT FROM jsonb_array_elements(
                CASE WHEN jsonb_typeof({value}) = 'array' THEN {value} ELSE '[]' END
            ) AS element WHERE {condition("element")}))"""

    def _value(self, path: Path) -> str:
        """Return the metadata value at a path, as jsonb; NULL if it is missing. Only objects are entered."""
        steps = "".join(f" -> {self._parameter(name, 'text')}" for name in path)
        return f"({self._columns.metadata}{steps})"

    def _holding(self, path: Path, value: Scalar | list[Scalar]) -> str:
        """Return the condition that metadata has this value at a path; for a list, that it has a list there
        with these elements. It equals a comparison of the value at the path, since containment enters only
        objects too."""
        held: object = value
        for name in reversed(path):
            held = {name: held}
        return f"({self._columns.metadata} @> {self._parameter(json.dumps(held), 'text::jsonb')})"

    def _json(self, value: Scalar) -> str:
        # Cast from text: a connection's codecs decide how it reads an argument of type jsonb.
        return self._parameter(_encoded(value), "text::jsonb")

    def _parameter(self, argument: object, sql_type: str) -> str:
        self.arguments.append(argument)
        return f"${self._first_parameter + len(self.arguments) - 1}::{sql_type}"


def _encoded(value: Scalar) -> str:
    return json.dumps(value)
