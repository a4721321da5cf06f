"""Values on and beyond every limit, by each service's port and through the gateway: one verdict for each."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import grpc
import httpx
import pytest
from google.api import annotations_pb2  # type: ignore[import-untyped]
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2  # type: ignore[import-untyped]
from groundline_cli.stack.suite import LOCAL_PRINCIPAL
from groundline_client import ApiError
from groundline_gateway.envoy.bootstrap import own_socket
from groundline_runtime.context import PRINCIPALS_KEY
from groundline_tests.limit_cases import LimitCase, limit_cases, methods, smallest
from groundline_tests.suite import Stack
from grpc_status import rpc_status

CONCURRENCY: Final = 8
MAX_ADDRESS: Final = 50_000
"""Characters; the client and the gateway take little more."""
SECONDS: Final = 30.0

# So that a right request is refused before it costs much, or changes what other tests use.
OTHERWISE_REFUSED: Final[Mapping[str, Mapping[str, Any]]] = {
    "AnswerRequest": {"collectionIds": ["no-such"]},
    "ChatRequest": {"collectionIds": ["no-such"]},
    "CreateCollectionRequest": {"collectionId": "examples"},
    "SearchRequest": {"collectionIds": ["no-such"]},
    "VerifyRequest": {"collectionIds": ["no-such"]},
}

# A re-index changes what chunks are made from; how they are searched is changed at once.
NOT_REINDEXED: Final = (
    "settings.retrieval",
    "settings.rerank",
    "settings.generation",
    "settings.access",
    "settings.webhooks",
    "settings.calibration",
    "settings.history",
    "settings.pictures",
    "settings.original_readers",
    "settings.vector_index",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of a request, and the fields that were named as wrong."""

    status: str
    reason: str
    fields: frozenset[str]

    @property
    def is_right(self) -> bool:
        return self.reason != "INVALID_REQUEST"

    def is_of(self, case: LimitCase) -> bool:
        """Tell whether it is the outcome that the contract states for the case."""
        if case.is_right:
            return self.is_right and self.status not in ("INTERNAL", "UNKNOWN")
        return (
            self.status == "INVALID_ARGUMENT"
            and bool(self.fields)
            and all(spelled(field).startswith(spelled(case.field)) for field in self.fields)
        )


def spelled(field: str) -> str:
    """Convert lowerCamelCase to the contract's spelling."""
    return field.replace("_", "").lower()


def base_of(method: MethodDescriptor) -> Message:
    base = smallest(method.input_type)
    base.MergeFrom(ParseDict(dict(OTHERWISE_REFUSED.get(method.input_type.name, {})), type(base)()))
    return base


@pytest.fixture(scope="module")
async def channels(stack: Stack) -> AsyncIterator[Mapping[str, grpc.aio.Channel]]:
    """By name of the service."""
    own = f"unix:{own_socket(stack.data_dir / 'envoy.json')}"
    targets = {**stack.ready["services"], "administration": own}
    opened = {name: grpc.aio.insecure_channel(target) for name, target in targets.items()}
    yield opened
    for channel in opened.values():
        await channel.close()


async def by_port(channel: Any, method: MethodDescriptor, request: Message) -> Verdict:
    path = f"/{method.containing_service.full_name}/{method.name}"
    data = request.SerializeToString()
    options = {"timeout": SECONDS, "metadata": ((PRINCIPALS_KEY, LOCAL_PRINCIPAL),)}
    try:
        if method.client_streaming and method.server_streaming:
            conversation = channel.stream_stream(path)(**options)
            await conversation.write(data)
            await conversation.read()
            conversation.cancel()
        elif method.client_streaming:
            await channel.stream_unary(path)(iter([data]), **options)
        elif method.server_streaming:
            call = channel.unary_stream(path)(data, **options)
            await call.read()
            call.cancel()
        else:
            await channel.unary_unary(path)(data, **options)
    except grpc.aio.AioRpcError as error:
        reason, fields = "", frozenset[str]()
        status = rpc_status.from_call(error)
        for detail in status.details if status else ():
            info, wrong = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                reason = info.reason
            elif detail.Unpack(wrong):
                fields = frozenset(violation.field for violation in wrong.field_violations)
        return Verdict(error.code().name, reason, fields)
    return Verdict("OK", "", frozenset())


async def by_gateway(client: httpx.AsyncClient, method: MethodDescriptor, request: Message) -> Verdict | None:
    """Return None if the method, or a request without its path's fields or with too long a query, has no
    address."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    if verb is None or method.client_streaming:
        return None
    fields = MessageToDict(request)
    path = getattr(rule, verb)
    for name in (
        "collection_id",
        "document_id",
        "erasure_id",
        "revision",
        "page",
        "thread_id",
        "message_id",
        "job_id",
        "source_id",
        "key_id",
    ):
        if f"{{{name}}}" in path:
            value = str(fields.pop(method.input_type.fields_by_name[name].json_name, ""))
            if not value.strip() or "\0" in value:
                return None
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
    if rule.body:
        sent = client.build_request(verb.upper(), path, json=fields)
    else:
        address = f"{path}?{urlencode(fields)}"
        if len(address) > MAX_ADDRESS:
            return None
        sent = client.build_request(verb.upper(), address)
    response = await client.send(sent, stream=True)
    try:
        if response.is_success:
            return Verdict("OK", "", frozenset())
        text = (await response.aread()).decode()
    finally:
        await response.aclose()
    error = ApiError.from_response(response.status_code, text)
    fields_named = frozenset(violation.field for violation in error.violations)
    return Verdict(code_pb2.Code.Name(error.code), error.reason, fields_named)


async def test_a_value_is_right_or_wrong_wherever_it_is_sent(
    stack: Stack, client: httpx.AsyncClient, channels: Mapping[str, grpc.aio.Channel]
) -> None:
    free = asyncio.Semaphore(CONCURRENCY)
    wrong: list[str] = []
    verdicts: dict[str, set[bool]] = defaultdict(set)
    sent = 0

    async def try_out(method: MethodDescriptor, case: LimitCase) -> None:
        nonlocal sent
        service = method.containing_service.name.removesuffix("Service").lower()
        async with free:
            for way, verdict in (
                ("gRPC", await by_port(channels[service], method, case.request)),
                ("gateway", await by_gateway(client, method, case.request)),
            ):
                if verdict is None:
                    continue
                sent += 1
                verdicts[case.concept].add(verdict.is_right)
                if not verdict.is_of(case):
                    wrong.append(f"{way} {method.full_name} {case.concept}: {verdict}")

    tried = [
        (method, case)
        for method in methods()
        for case in limit_cases(base_of(method))
        if method.name != "ReindexCollection" or not case.field.startswith(NOT_REINDEXED)
        # Only a start may be the first message of a conversation.
        if method.name != "Collect" or case.field.startswith("start")
    ]
    for start in range(0, len(tried), 200):  # not thousands of tasks at once
        await asyncio.gather(*(try_out(*one) for one in tried[start : start + 200]))
    assert sent > 2000
    assert wrong == []
    assert {concept for concept, found in verdicts.items() if len(found) > 1} == set()
    await delete_created(client)


async def delete_created(client: httpx.AsyncClient) -> None:
    """Delete the collections whose ids were valid."""
    listed = json.loads((await client.get("/api/collections?pageSize=1000")).text)
    for collection in listed["collections"]:
        if collection["collectionId"] in {"a", "0", "a" * 63, "a_-0"}:
            await client.delete(f"/api/collections/{collection['collectionId']}")
