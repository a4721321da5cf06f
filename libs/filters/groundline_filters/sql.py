"""Tree → SQL condition. It is never NULL, so that NOT is the opposite; every value is a parameter."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from groundline_filters.tree import (
    All,
    AnyOf,
    BeginsWith,
    Contains,
    Created,
    DocumentIds,
    Exists,
    Filter,
    Named,
    Negation,
    OneOf,
    Ordered,
    Path,
    Scalar,
    SourceTypes,
    Updated,
)

__all__ = ["Columns", "Condition", "compile_sql"]


INDEXED_VALUES = 8
"""Values of a list that are looked for one by one; more are compared with what is at the path."""


@dataclass(frozen=True, slots=True)
class Columns:
    """SQL expressions of what a filter looks at: uuid, text, timestamptz and jsonb; none may be NULL.

    The rows are documents, or with `documents` chunks: then that is the table of their documents, where what
    chunks do not repeat of them (uri, title, MIME type, container, time of creation) is looked up.
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
    """The condition; its parameters are `$first_parameter` and on.

    Equal shapes give equal texts, so that prepared statements are found again.
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
            # By containment, which an index on the metadata answers; of a few values one by one, as it does
            # not look for a list of them.
            case OneOf(path, values) if 0 < len(values) <= INDEXED_VALUES:
                held = (self._holding(path, value) for value in values)
                return f"({' OR '.join(held)})"
            # Not coalesce: of IS TRUE the planner knows that it selects as few as a comparison does.
            case OneOf(path, values):
                encoded = self._parameter([_encoded(value) for value in values], "text[]::jsonb[]")
                return f"(({self._value(path)} = ANY ({encoded})) IS TRUE)"
            case Ordered(path, order, str() as operand):
                # In JSON's own order strings follow the database's collation.
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
                return self._of_document(f"starts_with({text.value}, {self._parameter(prefix, 'text')})")

    def _joined(self, parts: Sequence[Filter], operator: str, empty: str) -> str:
        return f"({operator.join(map(self.expression, parts))})" if parts else empty

    def _of_document(self, condition: str) -> str:
        """A condition on columns that only documents have."""
        if not self._columns.documents:
            return f"({condition})"
        # IS TRUE keeps it from becoming a join: the documents are found once, and looked up for each row.
        found = f"SELECT document_id FROM {self._columns.documents} WHERE {condition}"  # noqa: S608 - no value
        return f"(({self._columns.document_id} IN ({found})) IS TRUE)"

    def _value(self, path: Path) -> str:
        """The metadata value at a path, as jsonb; NULL where it is missing. Only objects are stepped into."""
        steps = "".join(f" -> {self._parameter(name, 'text')}" for name in path)
        return f"({self._columns.metadata}{steps})"

    def _holding(self, path: Path, value: Scalar | list[Scalar]) -> str:
        """Metadata with this value at a path; of a list, with a list there that has its elements. The same as
        comparing what is at the path, since only objects are stepped into by containment too."""
        held: object = value
        for name in reversed(path):
            held = {name: held}
        return f"({self._columns.metadata} @> {self._parameter(json.dumps(held), 'text::jsonb')})"

    def _json(self, value: Scalar) -> str:
        # By way of text: what a connection makes of an argument that is jsonb, is up to its codecs.
        return self._parameter(_encoded(value), "text::jsonb")

    def _parameter(self, argument: object, sql_type: str) -> str:
        self.arguments.append(argument)
        return f"${self._first_parameter + len(self.arguments) - 1}::{sql_type}"


def _encoded(value: Scalar) -> str:
    return json.dumps(value)
