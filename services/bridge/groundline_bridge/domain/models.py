"""Model ids of the OpenAI API, and the collections that they stand for.

`groundline` is every collection that the caller may read; a collection's own id is that collection; ids with
`+` between them are those collections together. A collection that is called groundline is `+groundline`.
"""

from collections.abc import Sequence
from typing import Final

from groundline_runtime.errors import NotFoundError

ALL_COLLECTIONS: Final = "groundline"


def collections_of(model: str) -> Sequence[str]:
    """Return the collections of a model; empty for all that the caller may read.

    Raises NotFoundError (COLLECTION_NOT_FOUND) for an id without any.
    """
    if model == ALL_COLLECTIONS:
        return ()
    named = tuple(dict.fromkeys(part for part in model.split("+") if part))
    if not named:
        raise unknown_model(model)
    return named


def model_of(collection_id: str) -> str:
    """Return the id of the model that is one collection."""
    return f"+{collection_id}" if collection_id == ALL_COLLECTIONS else collection_id


def unknown_model(model: str) -> NotFoundError:
    return NotFoundError(
        "COLLECTION_NOT_FOUND",
        f"there is no model {model!r}: a model is a collection, as GET /v1/models lists them",
    )
