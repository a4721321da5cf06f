"""Chats over a coordinator's port."""

from collections.abc import Sequence

import grpc
from google.protobuf.json_format import ParseDict
from groundline.v1 import coordinator_service_pb2 as pb
from groundline.v1 import coordinator_service_pb2_grpc

type Stub = coordinator_service_pb2_grpc.CoordinatorServiceAsyncStub
type Response = pb.ChatResponse


async def chat(stub: Stub, **fields: object) -> tuple[list[Response], grpc.aio.AioRpcError | None]:
    """Return every event that arrived, and the status when it was not OK."""
    fields = {"query": "Which port?", "collectionIds": ["docs"], **fields}
    request = ParseDict(fields, pb.ChatRequest())
    events: list[Response] = []
    try:
        async for event in stub.Chat(request, timeout=20):
            events.append(event)
    except grpc.aio.AioRpcError as error:
        return events, error
    return events, None


def kinds(events: Sequence[Response]) -> list[str | None]:
    return [event.WhichOneof("event") for event in events]
