"""Agreement of a service's embedding model with those of a database's collections."""

from collections.abc import Collection, Mapping

from groundline_embedding.errors import ModelError


def require_agreement(running: Collection[tuple[str, int]], stored: Mapping[tuple[str, int], int]) -> None:
    """Raise ModelError if there are collections, and none is of a running model.

    Models are given by name and dimensions, stored ones with the number of their collections. Collections
    show which model the services run, so retriever and ingestor compare with them, each when it starts. One
    collection of the running model is enough: while collections move from one model to another, replicas of
    either come and go.
    """
    if not stored or not stored.keys().isdisjoint(running):
        return
    found = ", ".join(
        f"{model} ({dimensions} dimensions, {count})" for (model, dimensions), count in stored.items()
    )
    own = " and ".join(f"{model} ({dimensions} dimensions)" for model, dimensions in running)
    raise ModelError(
        f"embedding model {own} is to run, but all collections are of others: {found}; set embedding to one "
        "of these, or to move collections from one model to another set other_embedding too"
    )
