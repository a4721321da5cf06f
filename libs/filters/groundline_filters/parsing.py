"""Parser of filters, from JSON to a tree. The package's README defines the operators."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeGuard
from uuid import UUID

from google.protobuf.struct_pb2 import ListValue, Struct, Value

from groundline_filters.patterns import PatternError, sql_pattern
from groundline_filters.tree import (
    All,
    AnyOf,
    BeginsWith,
    Contains,
    Created,
    DocumentIds,
    Exists,
    FacetField,
    Filter,
    Inequality,
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

type _Leaf = Callable[[str, Json], Filter]
"""Makes a condition of an operator and its operand."""

type Json = Mapping[str, "Json"] | Sequence["Json"] | str | float | bool | None

MAX_CONDITIONS: Final = 100
MAX_DEPTH: Final = 8
MAX_VALUES: Final = 1000
MAX_PATH_NAMES: Final = 16
MAX_CHARACTERS: Final = 4096

_ORDERS: Final[Mapping[str, Inequality]] = {
    "$gt": Inequality.GT,
    "$gte": Inequality.GTE,
    "$lt": Inequality.LT,
    "$lte": Inequality.LTE,
}
_PATH_PROBLEM: Final = f"must be 1 to {MAX_PATH_NAMES} names with dots between"
_FACETS: Final[Mapping[str, FacetField]] = {f"${field.value}": field for field in FacetField}
_SOURCE_TYPES: Final = ("file", "object", "web")
_NAMED: Final = ("$eq", "$ne", "$in", "$nin")
_TEXTS: Final[Mapping[str, NamingField]] = {f"${text.value}": text for text in NamingField}
_NOT: Final = "$not"

# Metadata of a chunk whose text continues on another page: its first page, its last, and the list of all.
_PAGE: Final = ("page",)
_LAST_PAGE: Final = ("lastPage",)
_PAGES: Final = ("pages",)
_MAX_PAGES: Final = 100
"""Maximum pages in one condition; each of them is a condition of its own."""

_TIMES: Final[Mapping[str, type[Updated] | type[Created]]] = {
    "$update_time": Updated,
    "$create_time": Created,
}
_DOCUMENT_MEMBERS: Final = ("$and", "$or", "$not", "$document_id", "$source_type", *_TEXTS, *_TIMES)


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake and its path, such as `filter.$or[1].year.$gte`."""

    path: str
    description: str


class FilterError(Exception):
    """The filter is not valid; `problems` has every mistake that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{problem.path}: {problem.description}" for problem in problems))


class _UnusableError(Exception):
    """An operand is not of the type that its operator takes."""


def plain(struct: Struct) -> dict[str, Json]:
    """Return the struct as plain dictionaries, lists and scalars; numbers are floats.

    Names are sorted: a struct has no order, and equal filters are to give equal statements.
    """
    return {name: _plain(struct.fields[name]) for name in sorted(struct.fields)}


def parse(filter: Mapping[str, Json], *, path: str = "filter") -> Filter:  # noqa: A002
    """Parse a filter; an empty object holds for every document. `path` begins the paths of problems.

    Raises FilterError.
    """
    parser = _Parser()
    tree = parser.document(filter, path, depth=1)
    if parser.problems:
        raise FilterError(parser.problems)
    return tree


def parse_json(text: str, *, path: str = "filter") -> Filter:
    """Parse a filter given as JSON text; "" holds for every document."""
    try:
        # Numbers become doubles, as in a struct.
        filter = json.loads(text or "{}", parse_int=float)  # noqa: A001
    except (ValueError, RecursionError):
        raise FilterError([Problem(path, "must be a JSON object")]) from None
    return parse(filter, path=path)


def parse_facet(field: str) -> Path | FacetField:
    """Parse the name of a field whose values are counted. Raises FilterError."""
    if field in _FACETS:
        return _FACETS[field]
    names = None if field.startswith("$") else _path(field)
    if names is None:
        raise FilterError([Problem(field, f"{_PATH_PROBLEM}, or one of {', '.join(_FACETS)}")])
    return names


def _path(name: str) -> Path | None:
    names = tuple(name.split("."))
    return None if not all(names) or len(names) > MAX_PATH_NAMES or _text_problem(name) else names


class _Parser:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._conditions = 0

    def document(self, filter: Json, path: str, depth: int) -> All:  # noqa: A002
        """Parse all members of a filter object."""
        if not isinstance(filter, Mapping):
            self._problem(path, "must be an object")
            return All(())
        if depth > MAX_DEPTH:
            self._problem(path, f"is nested deeper than {MAX_DEPTH} levels")
            return All(())
        return All(
            tuple(part for name, value in filter.items() for part in self._member(name, value, path, depth))
        )

    def _member(self, name: str, value: Json, path: str, depth: int) -> list[Filter]:
        path = f"{path}.{name}"
        match name:
            case "$and" | "$or":
                parts = self._documents(value, path, depth)
                return [All(parts) if name == "$and" else AnyOf(parts)]
            case "$not":
                return [Negation(self.document(value, path, depth + 1))]
        if name in _MEMBERS:
            return self._operators(value, path, depth, *_MEMBERS[name])
        if name.startswith("$"):
            self._problem(path, f"unknown; there are {', '.join(_DOCUMENT_MEMBERS)}")
            return []
        names = _path(name)
        if names is None:
            self._problem(path, _PATH_PROBLEM)
            return []
        return self._operators(value, path, depth, _METADATA, partial(_metadata, names))

    def _documents(self, value: Json, path: str, depth: int) -> tuple[Filter, ...]:
        if not _is_list(value) or not value:
            self._problem(path, "must be a list of one or more objects")
            return ()
        if len(value) > MAX_CONDITIONS:
            self._problem(path, f"has more than {MAX_CONDITIONS} objects")
            return ()
        return tuple(self.document(part, f"{path}[{at}]", depth + 1) for at, part in enumerate(value))

    def _operators(
        self,
        value: Json,
        path: str,
        depth: int,
        known: Collection[str],
        leaf: _Leaf,
    ) -> list[Filter]:
        """Parse the conditions on one field."""
        if depth > MAX_DEPTH:
            self._problem(path, f"is nested deeper than {MAX_DEPTH} levels")
            return []
        if not isinstance(value, Mapping):
            value = {"$eq": value}
        if not value:
            self._problem(path, "has no operator")
        parts: list[Filter] = []
        for operator, operand in value.items():
            at = f"{path}.{operator}"
            if operator == _NOT:
                if isinstance(operand, Mapping):
                    inner = self._operators(operand, at, depth + 1, known, leaf)
                    parts.append(Negation(All(tuple(inner))))
                else:
                    self._problem(at, "must be an object of operators")
                continue
            self._conditions += 1
            if self._conditions == MAX_CONDITIONS + 1:
                self._problem(at, f"is more than {MAX_CONDITIONS} conditions")
            if self._conditions > MAX_CONDITIONS:
                break
            if operator not in known:
                self._problem(at, f"unknown operator; there are {', '.join((*known, _NOT))}")
                continue
            try:
                parts.append(leaf(operator, operand))
            except _UnusableError as error:
                self._problem(at, str(error))
        return parts

    def _problem(self, path: str, description: str) -> None:
        self.problems.append(Problem(path, description))


def _equal(path: Path, operand: Json) -> Filter:
    return _having(path, (_scalar(operand),))


def _one_of(path: Path, operand: Json) -> Filter:
    return _having(path, tuple(_scalar(value) for value in _values(operand)))


def _having(path: Path, values: Sequence[Scalar]) -> Filter:
    """Return the condition on one of the values; a chunk is on each page that its text touches."""
    found = OneOf(path, tuple(values))
    if path != _PAGE:
        return found
    if len(values) > _MAX_PAGES:
        raise _UnusableError(f"has more than {_MAX_PAGES} pages; give a range with $gte and $lte")
    return AnyOf((found, *(Contains(_PAGES, value) for value in values)))


def _not_equal(path: Path, operand: Json) -> Filter:
    return Negation(_equal(path, operand))


def _none_of(path: Path, operand: Json) -> Filter:
    return Negation(_one_of(path, operand))


def _ordered(order: Inequality) -> Callable[[Path, Json], Filter]:
    def leaf(path: Path, operand: Json) -> Filter:
        value = _scalar(operand)
        if value is None or isinstance(value, bool):
            raise _UnusableError("must be a number or a string")
        found = Ordered(path, order, value)
        if path == _PAGE and order in (Inequality.GT, Inequality.GTE):
            return AnyOf((found, Ordered(_LAST_PAGE, order, value)))
        return found

    return leaf


def _exists(path: Path, operand: Json) -> Filter:
    if not isinstance(operand, bool):
        raise _UnusableError("must be true or false")
    return Exists(path, operand)


def _begins_with(at: NamingField | Path, operand: Json) -> Filter:
    prefix = _string(operand)
    if not prefix:
        raise _UnusableError("must not be empty")
    return BeginsWith(at, prefix)


def _matches(at: NamingField | Path, operand: Json) -> Filter:
    try:
        return Matches(at, sql_pattern(_string(operand)))
    except PatternError as error:
        raise _UnusableError(str(error)) from None


def _contains(path: Path, operand: Json) -> Filter:
    return Contains(path, _scalar(operand))


_STRINGS: Final[Mapping[str, Callable[[NamingField | Path, Json], Filter]]] = {
    "$prefix": _begins_with,
    "$regex": _matches,
}
_METADATA: Final[Mapping[str, Callable[[Path, Json], Filter]]] = {
    "$eq": _equal,
    "$ne": _not_equal,
    **{operator: _ordered(order) for operator, order in _ORDERS.items()},
    "$in": _one_of,
    "$nin": _none_of,
    "$exists": _exists,
    "$contains": _contains,
    **_STRINGS,
}


def _named(make: Callable[[Sequence[Json]], Filter], operator: str, operand: Json) -> Filter:
    part = make(_values(operand) if operator in ("$in", "$nin") else [operand])
    return Negation(part) if operator in ("$ne", "$nin") else part


def _metadata(path: Path, operator: str, operand: Json) -> Filter:
    return _METADATA[operator](path, operand)


def _of_time(of: type[Updated] | type[Created], operator: str, operand: Json) -> Filter:
    return of(_ORDERS[operator], _time(operand))


def _text_of(text: NamingField, operator: str, operand: Json) -> Filter:
    if operator in _STRINGS:
        return _STRINGS[operator](text, operand)
    return _named(lambda values: Named(text, tuple(map(_string, values))), operator, operand)


def _document_ids(values: Sequence[Json]) -> Filter:
    try:
        return DocumentIds(tuple(UUID(value) for value in map(_string, values)))
    except ValueError:
        raise _UnusableError("must be a document id, a UUID") from None


def _source_types(values: Sequence[Json]) -> Filter:
    names = tuple(_string(value) for value in values)
    if not set(names) <= set(_SOURCE_TYPES):
        raise _UnusableError(f"must be one of {', '.join(_SOURCE_TYPES)}")
    return SourceTypes(names)


_MEMBERS: Final[Mapping[str, tuple[Collection[str], _Leaf]]] = {
    "$document_id": (_NAMED, partial(_named, _document_ids)),
    "$source_type": (_NAMED, partial(_named, _source_types)),
    **{name: ((*_NAMED, *_STRINGS), partial(_text_of, text)) for name, text in _TEXTS.items()},
    **{name: (_ORDERS, partial(_of_time, of)) for name, of in _TIMES.items()},
}
"""Operators of the fields that every document has, with what makes a condition of one."""


def _time(value: Json) -> datetime:
    text = _string(value)
    try:
        time = datetime.fromisoformat(text)
        # Without a zone it must be a date, which means its midnight.
        if time.tzinfo is None and len(text) == len("2025-01-31"):
            time = time.replace(tzinfo=UTC)
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise _UnusableError("must be a time with its zone, as 2025-01-31T09:00:00Z, or a date, as 2025-01-31")


def _values(operand: Json) -> Sequence[Json]:
    if not _is_list(operand):
        raise _UnusableError("must be a list")
    if len(operand) > MAX_VALUES:
        raise _UnusableError(f"has more than {MAX_VALUES} values")
    return operand


def _scalar(value: Json) -> Scalar:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        if not math.isfinite(value):
            raise _UnusableError("must be a finite number")
        return value
    raise _UnusableError("must be a string, a number, true, false or null")


def _string(value: Json) -> str:
    if not isinstance(value, str):
        raise _UnusableError("must be a string")
    if problem := _text_problem(value):
        raise _UnusableError(problem)
    return value


def _text_problem(text: str) -> str | None:
    if len(text) > MAX_CHARACTERS:
        return f"has more than {MAX_CHARACTERS} characters"
    # PostgreSQL stores neither.
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        return "must not have U+0000 or a lone surrogate"
    return None


def _is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _plain(value: Value) -> Json:
    kind = value.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    member = getattr(value, kind)
    if isinstance(member, Struct):
        return plain(member)
    if isinstance(member, ListValue):
        return [_plain(each) for each in member.values]
    scalar: str | float | bool = member
    return scalar
