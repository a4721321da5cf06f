"""The typed form of a filter. A value that is missing satisfies no leaf but `Exists(…, False)`."""

import enum
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

__all__ = [
    "All",
    "AnyOf",
    "Contains",
    "DocumentIds",
    "Exists",
    "Filter",
    "Negation",
    "OneOf",
    "Order",
    "Ordered",
    "Path",
    "Scalar",
    "SourceTypes",
    "Updated",
]

type Scalar = str | float | bool | None
type Path = tuple[str, ...]
"""Names from the metadata object down, at least one."""


class Order(enum.Enum):
    GT = ">"
    GTE = ">="
    LT = "<"
    LTE = "<="


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds; without parts it holds for every document."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Negation:
    part: "Filter"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value equals one of these, in type too."""

    path: Path
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The value is of the operand's type and so ordered; strings by code points."""

    path: Path
    order: Order
    operand: str | float


@dataclass(frozen=True, slots=True)
class Exists:
    path: Path
    exists: bool


@dataclass(frozen=True, slots=True)
class Contains:
    """The value is a list, and an element of it equals the operand."""

    path: Path
    operand: Scalar


@dataclass(frozen=True, slots=True)
class DocumentIds:
    document_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class SourceTypes:
    source_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Updated:
    """The document's time of last change, so ordered; `time` has a time zone."""

    order: Order
    time: datetime


type Filter = (
    All | AnyOf | Negation | OneOf | Ordered | Exists | Contains | DocumentIds | SourceTypes | Updated
)
