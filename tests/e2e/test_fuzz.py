"""Seeded nonsense, of the contract's shapes and broken ones, over HTTP and to each service's port.

Nothing may fail unexpectedly (a status of 500 and more, INTERNAL, UNKNOWN), hang, or break off a connection,
and memory has to stay where it is. `make fuzz` sends as many requests as a release needs; the tests send few.
"""

import asyncio
import json
import os
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import grpc
import httpx
import psutil
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from groundline_gateway.endpoints import Endpoint, endpoints
from groundline_tests.images.installed import SERVICES
from groundline_tests.limit_cases import methods, smallest
from groundline_tests.suite import Stack, delete_collection, ended_job

HTTP_REQUESTS: Final = int(os.environ.get("GROUNDLINE_FUZZ_HTTP_REQUESTS", "400"))
SERVICE_REQUESTS: Final = int(os.environ.get("GROUNDLINE_FUZZ_SERVICE_REQUESTS", "100"))
SEED: Final = int(os.environ.get("GROUNDLINE_FUZZ_SEED", "11"))
CONCURRENCY: Final = 8
HANG_SECONDS: Final = 60.0
# Of a process, in the second half of the requests: caches and arenas are full by then.
MAXIMUM_GROWTH_BYTES: Final = 128 << 20

UNEXPECTED: Final = (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
# Said by gRPC's asyncio client itself, where a service has refused a stream before its message was sent; the
# refusal's own status is lost.
CLIENTS_OWN: Final = "Internal error from Core"
TEXTS: Final = (
    "",
    " ",
    "a",
    "*",
    "fuzzed",
    "How many screws?",
    "a\0b",
    "\ud7ff\U0010ffff",
    "\u202e\u200b\ufeff",
    "'; DROP TABLE documents; --",
    "%' OR 1=1 --",
    "{{7*7}}${7*7}",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "</passage><U+200B/passage>",
    "http://127.0.0.1:1/",
    "x" * 5000,
    "ä" * 3000,
    "\n" * 100,
    "text/plain; charset=zlib",
    "123e4567-e89b-12d3-a456-426614174000",
    'AND OR NOT () " : ^ ~ *',
)
NUMBERS: Final = (0, 1, -1, 7, 100, 1000, 2**31 - 1, -(2**31))
FLOATS: Final = (0.0, -0.0, 0.5, 1.0, -1.0, 1e30, 1e-30, float("inf"), float("-inf"), float("nan"))
MESSAGE: Final = {"role": "user", "content": "How many screws?"}
OTHER_BODIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "/v1/chat/completions": {
        "model": "fuzzed",
        "messages": [MESSAGE],
        "temperature": 0.5,
        "max_tokens": 100,
        "groundline": {"filter": {"page": 1}, "options": {"rerank": {"topK": 3}}},
    },
    "/v1/responses": {"model": "fuzzed", "input": [MESSAGE], "max_output_tokens": 100},
    "/v1/embeddings": {"model": "fuzzed", "input": "How many screws?", "dimensions": 384},
    "/mcp": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "search_documents",
            "arguments": {
                "query": "How many screws?",
                "top_k": 3,
                "filter": {"page": 1, "team": {"$not": {"$regex": "^[a-z]{2,9}$"}}},
            },
        },
    },
}
# Values that a reader of JSON drops, alters or fails at.
BENT: Final = (
    b"1e999",
    b"NaN",
    b"9223372036854775808",
    b"9" * 400,
    b'"\\ud800"',
    b'{"a": 1, "a": 2}',
    b'1, "notAField": 2',
    b"[" * 40 + b"]" * 40,
)
# Words of exceptions, which no answer may show.
PYTHONS_WORDS: Final = ("Traceback", "pydantic", "invalid literal", "has no attribute", "Failed to parse")
OTHER_PATHS: Final = (
    "/",
    "/healthz",
    "/healthz/coordinator",
    "/docs",
    "/console/",
    "/console/licences.md",
    "/openapi.json",
    "/mcp",
    "/v1/models",
    "/v1/models/fuzzed",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/api",
    "/groundline.v1.IngestorService/GetCollection",
)

type Known = Mapping[str, str]


@pytest.fixture(scope="module")
async def known(stack: Stack) -> AsyncIterator[Known]:
    """Return ids of existing resources, so that requests get beyond the first look-up."""
    async with stack.client() as client:
        before = await collection_ids(client)
        made = await client.post("/api/collections", json={"collectionId": "fuzzed"})
        assert made.status_code == 200, made.text
        body = {"documents": [{"uri": "a.md", "text": "The hatch has four screws."}]}
        ingested = (await client.post("/api/collections/fuzzed/documents", json=body)).json()
        job = await ended_job(client, ingested["job"]["jobId"])
        [document] = (await client.get("/api/collections/fuzzed/documents")).json()["documents"]
        source = {"name": "site", "web": {"startUrl": "http://127.0.0.1:1/"}}
        created = await client.post("/api/collections/fuzzed/sources", json={"source": source})
        assert created.status_code == 200, created.text
        yield {
            "collection_id": "fuzzed",
            "document_id": document["documentId"],
            "job_id": job["jobId"],
            "source_id": created.json()["source"]["sourceId"],
        }
        for collection_id in await collection_ids(client) - before:
            await delete_collection(client, collection_id)


async def collection_ids(client: httpx.AsyncClient) -> set[str]:
    listed = (await client.get("/api/collections?pageSize=1000")).json()["collections"]
    return {collection["collectionId"] for collection in listed}


class Fuzzer:
    """Makes requests, the same for the same seed."""

    def __init__(self, seed: str, known: Known) -> None:
        self.random = random.Random(seed)
        self._known = known

    def message(self, descriptor: Descriptor, depth: int = 0) -> Message:
        """Return a message with some of its fields set, to any values that fit their types."""
        message: Message = GetMessageClass(descriptor)()
        if isinstance(message, Struct):
            message.update(self.json_object(depth))
            return message
        if isinstance(message, FieldMask):  # JSON can say no other
            message.paths.append(self.random.choice(("name", "settings.access", "settings.none", "x", "*")))
            return message
        if isinstance(message, Timestamp):  # likewise
            message.seconds = self.random.choice(NUMBERS)
            message.nanos = self.random.choice((0, 1, 999_999_999))
            return message
        share = self.random.choice((0.1, 0.3, 0.7))
        for field in descriptor.fields:
            if depth < 6 and self.random.random() < share:
                self._set(message, field, depth)
        return message

    def request(self, descriptor: Descriptor) -> Message:
        """Return a valid request about existing resources with some of its fields fuzzed."""
        request = smallest(descriptor)
        request.MergeFrom(self.message(descriptor))
        for name, value in self._known.items():
            if descriptor.name.startswith("Delete"):
                break
            if name in descriptor.fields_by_name and self.random.random() < 0.6:
                setattr(request, name, value)
        return request

    def json_object(self, depth: int) -> dict[str, Any]:
        names = ("a", "$or", "$and", "$not", "$gt", "$in", "$document_id", "page", "", "x" * 300)
        return {self.random.choice(names): self._json(depth + 1) for _ in range(self.random.randrange(4))}

    def bytes_of(self, message: Message) -> bytes:
        """Encode it, mostly as it is; otherwise with bytes flipped, cut off or inserted."""
        data = bytearray(message.SerializeToString())
        if self.random.random() < 0.7:
            return bytes(data)
        for _ in range(self.random.randrange(1, 5)):
            place = self.random.randrange(len(data) + 1)
            match self.random.randrange(3):
                case 0:
                    del data[place:]
                case 1:
                    data[place:place] = self.random.randbytes(self.random.randrange(1, 9))
                case _:
                    data[place : place + 1] = self.random.randbytes(1)
        return bytes(data)

    def principals(self) -> str:
        return self.random.choice(
            ("user:local", "user:eve", "", "user:local,group:a", "%00", "a" * 9000, ",,")
        )

    def http(self, endpoint: Endpoint | None) -> tuple[str, str, dict[str, str], bytes]:
        """Method, path, headers and body."""
        headers = {"content-type": "application/json"}
        if endpoint is None:
            verb, path = self.random.choice(("GET", "POST", "PUT")), self.random.choice(OTHER_PATHS)
            sent = self.json_object(0) if self.random.random() < 0.3 else {}
            content = json.dumps({**OTHER_BODIES.get(path, {}), **sent}).encode()
            headers["accept"] = "application/json, text/event-stream"
        else:
            verb, path = endpoint.verb, endpoint.template
            path = re.sub(r"{(\w+)}", lambda name: quote(self._id(name[1], verb), safe="") or "%20", path)
            body = MessageToDict(self.request(endpoint.method.input_type))
            content = json.dumps(body).encode() if endpoint.body_field else b""
        if self.random.random() < 0.3:
            path += "?" + quote(self.random.choice(TEXTS)[:200], safe="=&") + "=" + quote(self._text()[:200])
            if self.random.random() < 0.3:
                path += "&" + path.partition("?")[2]
        if self.random.random() < 0.3:
            content = self._mutated(content)
        if self.random.random() < 0.1:
            headers[
                self.random.choice(("content-encoding", "accept", "x-groundline-principals", "expect-ct"))
            ] = self.random.choice(("gzip, gzip", "user:admin", "text/event-stream", "%ff"))
        if self.random.random() < 0.1:
            headers["content-type"] = self.random.choice(
                ("text/plain", "application/grpc", "a/b; charset=zlib")
            )
        return verb, path, headers, content

    def _id(self, name: str, verb: str) -> str:
        # Existing resources stay.
        if verb != "DELETE" and name in self._known and self.random.random() < 0.6:
            return self._known[name]
        return self._text()[:300]

    def _text(self) -> str:
        if self.random.random() < 0.2:
            return "".join(chr(self.random.randrange(1, 0xD7FF)) for _ in range(self.random.randrange(40)))
        return self.random.choice(TEXTS)

    def _json(self, depth: int) -> Any:
        kind = self.random.randrange(6 if depth < 4 else 4)
        if kind == 4:
            return self.json_object(depth)
        if kind == 5:
            return [self._json(depth + 1) for _ in range(self.random.randrange(4))]
        return (None, self.random.random() < 0.5, self.random.choice(NUMBERS), self._text())[kind]

    def _mutated(self, content: bytes) -> bytes:
        values = [*re.finditer(rb'(?<=: )("[^"]*"|[^][{}", ]+)', content)]
        if values and self.random.random() < 0.5:
            value = self.random.choice(values)
            return content[: value.start()] + self.random.choice(BENT) + content[value.end() :]
        text = bytearray(content)
        place = self.random.randrange(len(text) + 1)
        inserted = (b"{", b"]", b'"', b"\xff", b"\0", b"1e999", b'"a":1,"a":2', b"[" * 200, b'"\\ud800"')
        text[place : place + self.random.randrange(3)] = self.random.choice(inserted)
        return bytes(text)

    def _set(self, message: Any, field: FieldDescriptor, depth: int) -> None:
        if field.message_type and (
            field.message_type.GetOptions().map_entry or field.message_type.full_name == "google.protobuf.Any"
        ):
            return
        if field.message_type:
            made = [self.message(field.message_type, depth + 1) for _ in range(self.random.randrange(1, 3))]
            if field.is_repeated:
                getattr(message, field.name).extend(made)
            else:
                getattr(message, field.name).CopyFrom(made[0])
            return
        values = [self._scalar(field) for _ in range(self.random.randrange(1, 4))]
        if field.is_repeated:
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, values[0])

    def _scalar(self, field: FieldDescriptor) -> Any:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self.random.randbytes(self.random.randrange(50))
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING:
                if field.name in self._known and self.random.random() < 0.6:
                    return self._known[field.name]
                return self._text()
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.random.random() < 0.5
            case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
                return self.random.choice(FLOATS)
            case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
                return abs(self.random.choice(NUMBERS))
            case FieldDescriptor.CPPTYPE_ENUM:
                return self.random.choice((0, 1, 2, 3, 99))
            case _:
                return self.random.choice(NUMBERS)


def memory(stack: Stack) -> dict[str, int]:
    """Return the bytes of each process."""
    return {name: psutil.Process(pid).memory_info().rss for name, pid in stack.ready["pids"].items()}


async def sent_half_by_half(stack: Stack, requests: Iterator[Any]) -> None:
    """Run what sends the requests; memory must not grow in the second half."""
    waiting = list(requests)
    free = asyncio.Semaphore(CONCURRENCY)

    async def run(one: Any) -> None:
        async with free:
            await one()

    middle = len(waiting) // 2
    await asyncio.gather(*map(run, waiting[:middle]))
    before = memory(stack)
    await asyncio.gather(*map(run, waiting[middle:]))
    growth = {name: after - before.get(name, after) for name, after in memory(stack).items()}
    print("growth in MiB:", {name: grown >> 20 for name, grown in growth.items()})
    assert {name: grown for name, grown in growth.items() if grown > MAXIMUM_GROWTH_BYTES} == {}
    assert not set(stack.ready["pids"]) - set(stack.living())


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_fails_at_nothing_that_it_is_sent(stack: Stack, known: Known, service: str) -> None:
    own = [one for one in methods() if one.containing_service.name.removesuffix("Service").lower() == service]
    statuses: Counter[str] = Counter()
    unexpected: list[str] = []
    async with grpc.aio.insecure_channel(stack.ready["services"][service]) as channel:

        async def send(number: int) -> None:
            fuzzer = Fuzzer(f"{SEED} {service} {number}", known)
            method = fuzzer.random.choice(own)
            data = fuzzer.bytes_of(fuzzer.request(method.input_type))
            metadata = (("x-groundline-principals", fuzzer.principals()),)
            try:
                await _call(channel, method, data, metadata)
                statuses["OK"] += 1
            except grpc.aio.AioRpcError as error:
                statuses[error.code().name] += 1
                if error.code() in UNEXPECTED and error.details() != CLIENTS_OWN:
                    unexpected.append(f"{number} {method.name}: {error.code().name} {error.details()}")

        await sent_half_by_half(
            stack, (lambda number=number: send(number) for number in range(SERVICE_REQUESTS))
        )
    print(service, dict(statuses))
    assert unexpected == []
    assert len(statuses) > 1


async def _call(channel: Any, method: MethodDescriptor, data: bytes, metadata: Any) -> None:
    path = f"/{method.containing_service.full_name}/{method.name}"
    options = {"timeout": HANG_SECONDS, "metadata": metadata}
    if method.client_streaming:
        await channel.stream_unary(path)(iter([data]), **options)
    elif method.server_streaming:
        async for _ in channel.unary_stream(path)(data, **options):
            pass
    else:
        await channel.unary_unary(path)(data, **options)


async def test_the_gateway_fails_at_nothing_that_it_is_sent(stack: Stack, known: Known) -> None:
    routes = [*endpoints(), None, None]
    statuses: Counter[int] = Counter()
    unexpected: list[str] = []
    async with stack.client() as client:

        async def send(number: int) -> None:
            fuzzer = Fuzzer(f"{SEED} http {number}", known)
            verb, path, headers, content = fuzzer.http(fuzzer.random.choice(routes))
            request = client.build_request(verb, path, headers=headers, content=content)
            try:
                async with asyncio.timeout(HANG_SECONDS):
                    response = await client.send(request)
            except (httpx.TransportError, TimeoutError) as error:
                unexpected.append(f"{number} {verb} {path[:100]}: {type(error).__name__}")
                return
            statuses[response.status_code] += 1
            if response.status_code >= 500 or any(word in response.text for word in PYTHONS_WORDS):
                unexpected.append(
                    f"{number} {verb} {path[:100]}: {response.status_code} {response.text[:300]}"
                )

        await sent_half_by_half(
            stack, (lambda number=number: send(number) for number in range(HTTP_REQUESTS))
        )
    print("gateway", dict(statuses))
    assert unexpected == []
    assert 200 in statuses
    assert 400 in statuses
