"""Typed form of a filter. A missing value satisfies no leaf but `Exists(…, False)`."""

import enum
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

type Scalar = str | float | bool | None
type Path = tuple[str, ...]
"""Names from the metadata object down, at least one."""


class Inequality(enum.Enum):
    GT = ">"
    GTE = ">="
    LT = "<"
    LTE = "<="


@dataclass(frozen=True, slots=True)
class All:
    """Conjunction of the parts; without parts it holds for every document."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Disjunction of the parts."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Negation:
    part: "Filter"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value equals one of these, in type too, or is a list with an element that does."""

    path: Path
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The value has the operand's type and compares so with it; strings compare by code points."""

    path: Path
    order: Inequality
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
    """The document's time of last change compares so; `time` has a time zone."""

    order: Inequality
    time: datetime


@dataclass(frozen=True, slots=True)
class Created:
    """The time when the document was first handed in compares so; `time` has a time zone."""

    order: Inequality
    time: datetime


class FacetField(enum.Enum):
    """Properties of a document, outside its metadata, whose values are counted."""

    COLLECTION_ID = "collection_id"
    SOURCE_TYPE = "source_type"
    MIME_TYPE = "mime_type"


class NamingField(enum.Enum):
    """Text properties of a document, outside its metadata."""

    URI = "uri"
    TITLE = "title"
    MIME_TYPE = "mime_type"
    CONTAINER_URI = "container_uri"


@dataclass(frozen=True, slots=True)
class Named:
    """The document's text is one of these."""

    text: NamingField
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BeginsWith:
    """The document's text, or the metadata value at a path or an element of that, is a string that begins
    with this."""

    text: NamingField | Path
    prefix: str


@dataclass(frozen=True, slots=True)
class Matches:
    """The same string has a part that matches."""

    text: NamingField | Path
    pattern: str
    """Regular expression of PostgreSQL, for the collation "C", from `patterns.sql_pattern`."""


type Filter = (
    All
    | AnyOf
    | Negation
    | OneOf
    | Ordered
    | Exists
    | Contains
    | DocumentIds
    | SourceTypes
    | Updated
    | Created
    | Named
    | BeginsWith
    | Matches
)
