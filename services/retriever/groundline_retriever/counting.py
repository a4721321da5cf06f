"""Facets of a search, counted beside it within a time of their own."""

import asyncio
from collections.abc import Sequence
from typing import Final, Self

import structlog
from groundline.v1 import error_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_contracts import default_of
from groundline_filters import parse_facet
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import GroundlineError
from groundline_runtime.reasons import reason_value

from groundline_retriever.domain import Selection
from groundline_retriever.ports import ChunkStore

TIMEOUT_SECONDS: Final = 5.0
COUNTING_SHARE: Final = 0.4
"""Share of a request's remaining time that counting may take, as an arm may."""

_MAX_VALUES: Final[int] = default_of(pb.SearchRequest, "max_facet_values")

type _Counted = Sequence[pb.Facet] | passage_pb2.Degradation

_log = structlog.get_logger(__name__)


class CountedFacets:
    """The request's facets, counted while a block runs, and no longer."""

    def __init__(
        self,
        store: ChunkStore,
        request: pb.SearchRequest,
        collection_ids: Sequence[str],
        selection: Selection,
    ) -> None:
        self._task = asyncio.create_task(_counted(store, request, collection_ids, selection))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._task.cancel()

    async def add_to(self, response: pb.SearchResponse) -> None:
        """Put the counts into the response, or the reason why they are missing."""
        counted = await self._task
        if isinstance(counted, passage_pb2.Degradation):
            response.degraded.append(counted)
        else:
            response.facets.extend(counted)


async def _counted(
    store: ChunkStore, request: pb.SearchRequest, collection_ids: Sequence[str], selection: Selection
) -> _Counted:
    names = list(dict.fromkeys(request.facets))
    left = remaining_seconds()
    seconds = TIMEOUT_SECONDS if left is None else min(TIMEOUT_SECONDS, left * COUNTING_SHARE)
    try:
        async with deadline_within(seconds):
            counted = await store.facets(
                collection_ids,
                [parse_facet(name) for name in names],
                selection,
                limit=request.max_facet_values or _MAX_VALUES,
            )
    except GroundlineError as error:
        _log.warning("facets_failed", reason=error.reason)
        reason = reason_value(error.reason)
    except Exception:
        # Whatever fails, the passages are there.
        _log.exception("facets_failed", reason="INTERNAL")
        reason = error_pb2.INTERNAL
    else:
        for name, facet in zip(names, counted, strict=True):
            facet.field = name
        return counted
    return passage_pb2.Degradation(
        component=passage_pb2.COMPONENT_FACETS,
        reason=reason,
        message="the values of the facets could not be counted in time",
    )
