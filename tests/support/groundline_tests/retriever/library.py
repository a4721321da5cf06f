"""A small library, and a client that searches it."""

from collections.abc import Iterable
from typing import Any, cast

import grpc
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import options_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_runtime.context import PRINCIPALS_KEY
from groundline_runtime.status import from_rpc_error

LEASES = "A replica that lost its lease stops serving reads."
LEADER = "The leader renews the lease of every replica."
BREAD = "Bake the bread until the crust is dark brown."
SECRET = "The merger lease closes on Friday, says the board."
Options = options_pb2.RetrievalOptions
Response = pb.SearchResponse


class Client:
    """Searches as a caller with given principals, and keeps all that is found; errors arrive as the
    suite's own."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def __call__(
        self,
        query: str = "lease of a replica",
        collections: Iterable[str] = (),
        options: Options | None = None,
        *,
        rerank: options_pb2.RerankOptions | None = None,
        principals: str = "",
        seconds: float = 20,
        **fields: Any,
    ) -> Response:
        everything = options_pb2.RerankOptions(top_k=100, deduplication_threshold=0)
        request = pb.SearchRequest(
            query=query,
            collection_ids=collections,
            options=options_pb2.SearchOptions(retrieval=options, rerank=rerank or everything),
            **fields,
        )
        metadata = ((PRINCIPALS_KEY, principals),) if principals else ()
        try:
            response: Response = await self._stub.Search(request, timeout=seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        return response


def texts(response: Response) -> set[str]:
    return {candidate.chunk.text for candidate in response.passages}


def struct(filter: dict[str, Any]) -> Struct:  # noqa: A002
    message = Struct()
    message.update(filter)
    return message


def scores(response: Response, arm: str) -> dict[str, float]:
    """Return the arm's scores by chunk id."""
    return {
        candidate.chunk.chunk_id: getattr(candidate.explanation, arm).score
        for candidate in response.passages
        if candidate.explanation.HasField(cast("Any", arm))
    }


def stages(found: Response) -> set[int]:
    return {timing.stage for timing in found.timings}
