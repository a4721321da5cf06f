"""Models for the current caller."""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import collection_pb2, ingestor_service_pb2

from groundline_bridge.domain.models import ALL_COLLECTIONS, collections_of, model_of
from groundline_bridge.ports import Ingestor

_PAGE_SIZE: Final = 1000
_MAX_PAGES: Final = 10


class Collections:
    """The collections that the current caller may read."""

    def __init__(self, ingestor: Ingestor) -> None:
        self._ingestor = ingestor

    async def all(self) -> Sequence[collection_pb2.Collection]:
        """Return the collections by id, 10,000 at most."""
        found: list[collection_pb2.Collection] = []
        request = ingestor_service_pb2.ListCollectionsRequest(page_size=_PAGE_SIZE)
        for _ in range(_MAX_PAGES):
            page = await self._ingestor.list_collections(request)
            found.extend(page.collections)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return found


class ModelService:
    """Models of the OpenAI API: each collection, and all of them together."""

    def __init__(self, ingestor: Ingestor) -> None:
        self._ingestor = ingestor
        self._collections = Collections(ingestor)

    async def list(self) -> dict[str, Any]:
        """List all collections together first, then each by id."""
        found = await self._collections.all()
        models = [_model(model_of(each.collection_id), each.create_time) for each in found]
        return {"object": "list", "data": [_model(ALL_COLLECTIONS, Timestamp()), *models]}

    async def get(self, model: str) -> dict[str, Any]:
        """Return a model, which may combine collections. Raises NotFoundError."""
        times = [
            (await self._collection(collection_id)).create_time for collection_id in collections_of(model)
        ]
        return _model(model, max(times, key=lambda time: time.ToNanoseconds(), default=Timestamp()))

    async def _collection(self, collection_id: str) -> collection_pb2.Collection:
        request = ingestor_service_pb2.GetCollectionRequest(collection_id=collection_id)
        return (await self._ingestor.get_collection(request)).collection


def _model(model: str, created: Timestamp) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": created.seconds, "owned_by": "groundline"}
