"""What requests may search: looked up for each, and expected from what was found before."""

from collections import OrderedDict
from collections.abc import Sequence

from groundline.v1 import options_pb2
from groundline_runtime.context import Caller
from groundline_runtime.errors import InvalidArgumentError, NotFoundError

from groundline_coordinator.domain.options import scope_of
from groundline_coordinator.domain.turns import Inquiry, ReadableCollection, Scope
from groundline_coordinator.ports import CollectionCatalog

__all__ = ["Scopes"]

REMEMBERED = 1_000
"""Callers with the collections that they name."""


class Scopes:
    """The scopes of requests."""

    def __init__(self, catalog: CollectionCatalog) -> None:
        self._catalog = catalog
        self._found: OrderedDict[tuple[Sequence[str], ...], Sequence[ReadableCollection]] = OrderedDict()

    async def of(self, caller: Caller, inquiry: Inquiry, generation: options_pb2.GenerationOptions) -> Scope:
        """Raises NotFoundError (COLLECTION_NOT_FOUND), InvalidArgumentError for what is beyond a collection's
        limits."""
        found = await self._catalog.readable(caller.principals, inquiry.collection_ids)
        known = {collection.collection_id for collection in found}
        if missing := [name for name in inquiry.collection_ids if name not in known]:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no such collection: {', '.join(missing)}")
        if inquiry.collection_ids:
            key = caller.principals, inquiry.collection_ids
            self._found[key] = found
            self._found.move_to_end(key)
            if len(self._found) > REMEMBERED:
                self._found.popitem(last=False)
        return scope_of(inquiry, generation, found)

    def expected(
        self, caller: Caller, inquiry: Inquiry, generation: options_pb2.GenerationOptions
    ) -> Scope | None:
        """What `of` will return unless a collection has changed since this caller last named the same ones:
        it is the same where `versions` are. None where that is not known."""
        found = self._found.get((caller.principals, inquiry.collection_ids))
        if found is None:
            return None
        try:
            return scope_of(inquiry, generation, found)
        except InvalidArgumentError:
            return None  # `of` says so, if it is still true
