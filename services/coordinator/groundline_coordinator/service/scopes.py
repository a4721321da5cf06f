"""What requests may search: looked up, or expected from what was found before and proven by what is read."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from groundline.v1 import options_pb2
from groundline_runtime.context import Caller
from groundline_runtime.errors import GroundlineError, InvalidArgumentError, NotFoundError

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

    async def searched[Found](
        self,
        caller: Caller,
        inquiry: Inquiry,
        generation: options_pb2.GenerationOptions,
        search: Callable[[Scope], Awaitable[Found]],
        versions_of: Callable[[Found], Mapping[str, int]],
    ) -> Found:
        """What `search` finds in the scope.

        Where this caller has named the same collections before, it begins with what they were then; they are
        looked up only if `versions_of` what it finds are not theirs, or it fails. What it makes of a scope
        that is not so any more, failures included, does not count. Raises as `of`.
        """
        expected = self._expected(caller, inquiry, generation)
        if expected is None:
            return await search(await self.of(caller, inquiry, generation))
        failure: GroundlineError | None = None
        try:
            found = await search(expected)
        except GroundlineError as error:
            failure = error
        else:
            if versions_of(found) == expected.versions:
                return found
        scope = await self.of(caller, inquiry, generation)
        if scope.versions != expected.versions:
            return await search(scope)
        if failure is not None:
            raise failure
        return found

    def _expected(
        self, caller: Caller, inquiry: Inquiry, generation: options_pb2.GenerationOptions
    ) -> Scope | None:
        """What `of` would return unless a collection has changed since this caller last named the same ones:
        it is the same where `versions` are. None where that is not known."""
        key = caller.principals, inquiry.collection_ids
        found = self._found.get(key)
        if found is None:
            return None
        self._found.move_to_end(key)
        try:
            return scope_of(inquiry, generation, found)
        except InvalidArgumentError:
            return None  # `of` says so, if it is still true
