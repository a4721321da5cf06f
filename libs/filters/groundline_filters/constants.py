"""Filters whose result does not depend on the document."""

from groundline_filters.tree import (
    All,
    AnyOf,
    DocumentIds,
    Filter,
    Named,
    Negation,
    OneOf,
    SourceTypes,
)


def holds_always(tree: Filter) -> bool:
    """Tell whether a filter's form alone makes it hold for every document.

    An empty object does, an empty `$nin`, and combinations of them.
    """
    return _value(tree) is True


def _value(tree: Filter) -> bool | None:
    """Return True or False if the filter's result is the same for every document, else None."""
    match tree:
        case All(parts):
            values = [_value(part) for part in parts]
            return False if False in values else None if None in values else True
        case AnyOf(parts):
            values = [_value(part) for part in parts]
            return True if True in values else None if None in values else False
        case Negation(part):
            value = _value(part)
            return None if value is None else not value
        case (
            OneOf(values=()) | DocumentIds(document_ids=()) | SourceTypes(source_types=()) | Named(values=())
        ):
            return False
        case _:
            return None
