"""Finding the places of citations on the pages of their documents."""

from collections.abc import Iterable, Sequence

from groundline.v1 import chat_pb2, passage_pb2, retriever_service_pb2
from groundline_runtime.context import deadline_within
from groundline_runtime.errors import GroundlineError
from groundline_runtime.reasons import reason_value

from groundline_coordinator.domain.locations import add_boxes, locate
from groundline_coordinator.ports import Retriever
from groundline_coordinator.service.progress import StageReport


async def locate_citations(
    retriever: Retriever,
    citations: Iterable[chat_pb2.Citation],
    passages: Sequence[passage_pb2.Passage],
    progress: StageReport,
    timeout_seconds: float,
) -> None:
    """Add to citations their pages and boxes. Boxes that cannot be read are declared as missing."""
    locations = locate(citations, passages)
    chunk_ids: dict[str, dict[str, None]] = {}
    for chunk in (chunk for location in locations for chunk in location.chunks):
        chunk_ids.setdefault(chunk.collection_id, {})[chunk.chunk_id] = None
    if not chunk_ids:
        return
    selections = [
        retriever_service_pb2.CollectionChunks(collection_id=name, chunk_ids=ids)
        for name, ids in chunk_ids.items()
    ]
    request = retriever_service_pb2.FetchChunksRequest(selections=selections, with_lines=True)
    try:
        async with deadline_within(timeout_seconds):
            response = await retriever.fetch(request)
    except GroundlineError as error:
        progress.degrade(
            passage_pb2.COMPONENT_CITATION_BOXES,
            reason_value(error.reason),
            f"the places of citations on their pages could not be read: {error.message}",
        )
        return
    add_boxes(locations, response.lines)
