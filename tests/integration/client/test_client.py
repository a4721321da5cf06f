"""The clients on a real port: what they try again, and what they make of answers that break off."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO, RawIOBase
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from groundline_client import (
    ApiError,
    AsyncClient,
    Client,
    DeadlineExceededError,
    ProtocolError,
    UnreachableError,
    corrected,
    has_ended,
)
from groundline_client.models import (
    AnswerCorrection,
    ChatCompleted,
    ChatDelta,
    ChatStarted,
    IngestionJob,
    UnsupportedSentence,
)
from groundline_tests.gateway.running import FakeGateway, Reply, status

DOWN = Reply(503, status(14, "a service is not available", "SERVICE_UNAVAILABLE"))
RETRY_SOON = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}
RETRY_LATE = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "25s"}
LIMITED = Reply(429, status(8, "too many requests", "RATE_LIMITED", RETRY_SOON))
TOO_LARGE = Reply(429, status(8, "message larger than max", "TOO_LARGE"))
ITEM = {"uri": "a", "state": "INGESTION_STATE_DONE"}


@pytest.fixture
async def client(gateway: FakeGateway) -> AsyncIterator[AsyncClient]:
    async with gateway.connection.client() as made:
        yield made


@pytest.fixture
def blocking(gateway: FakeGateway) -> Iterator[Client]:
    with Client(gateway.connection.gateway, gateway.connection.api_key) as made:
        yield made


async def test_no_gateway_at_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with AsyncClient(address, "key") as client:
            with pytest.raises(UnreachableError, match="is the suite running"):
                await client.search("x")
        with (
            Client(address, "key") as blocking,
            pytest.raises(UnreachableError, match="is the suite running"),
        ):
            blocking.search("x")


async def test_a_gateway_with_a_certificate_of_nobody_is_told_nothing_here_too(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "chain.pem").write_bytes(private + certificate.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "chain.pem")
    told: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.append(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    address = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    async with server, AsyncClient(address, "key", timeout_seconds=2) as client:
        with pytest.raises(UnreachableError):
            await client.search("x")
    assert told == []


async def test_a_wrong_key_is_refused_with_its_reason(gateway: FakeGateway) -> None:
    async with AsyncClient(gateway.connection.gateway, "wrong") as client:
        with pytest.raises(ApiError) as raised:
            await client.search("x")
    assert (raised.value.http_status, raised.value.reason) == (401, "API_KEY_INVALID")


async def test_something_else_is_not_taken_for_a_gateway(gateway: FakeGateway, client: AsyncClient) -> None:
    gateway.next_replies = [Reply(200, "<html>"), Reply(200, {}), Reply(200, "<html>"), Reply(200, "[]")]
    with pytest.raises(ProtocolError):
        await client.search("x")
    with pytest.raises(ProtocolError):
        await client.get_collection("docs")
    with pytest.raises(ProtocolError, match="not events"):
        await anext(client.chat("x"))
    with pytest.raises(ProtocolError):
        await client.search("x")


@pytest.mark.parametrize("reply", [DOWN, LIMITED])
async def test_what_is_idempotent_is_tried_again(
    gateway: FakeGateway, client: AsyncClient, blocking: Client, reply: Reply
) -> None:
    gateway.next_replies = [reply, reply]
    assert (await client.search("x")).passages == ()
    gateway.next_replies = [reply, reply]
    assert blocking.search("x").passages == ()
    assert gateway.paths("POST") == ["/api/search"] * 6


@pytest.mark.parametrize("reply", [DOWN, LIMITED])
async def test_what_the_contract_does_not_call_idempotent_is_not(
    gateway: FakeGateway, client: AsyncClient, reply: Reply
) -> None:
    gateway.next_replies = [reply]
    with pytest.raises(ApiError):
        await client.answer("x")
    gateway.next_replies = [reply]
    with pytest.raises(ApiError):
        await anext(client.chat("x"))
    assert len(gateway.requests) == 2


async def test_with_a_request_id_it_is_and_always_with_the_same_one(
    gateway: FakeGateway, client: AsyncClient
) -> None:
    gateway.answer = {"answer": "27"}
    gateway.next_replies = [DOWN]
    assert (await client.answer("x", request_id="r-1")).answer == "27"
    gateway.next_replies = [DOWN]
    await client.create_collection("docs")
    sent = [body["requestId"] for _, _, body in gateway.requests]
    assert sent[:2] == ["r-1", "r-1"]
    assert sent[2] == sent[3] != ""


async def test_a_request_too_much_is_not_tried_again(gateway: FakeGateway, client: AsyncClient) -> None:
    gateway.next_replies = [TOO_LARGE]
    with pytest.raises(ApiError, match="larger than max"):
        await client.search("x")
    assert len(gateway.requests) == 1


async def test_trying_again_has_an_end(gateway: FakeGateway, client: AsyncClient) -> None:
    gateway.next_replies = [LIMITED] * 50
    with pytest.raises(ApiError, match="too many requests"):
        await client.search("x")
    assert 1 < len(gateway.requests) < 10


async def test_who_is_to_come_tomorrow_is_told_at_once(gateway: FakeGateway, client: AsyncClient) -> None:
    tomorrow = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "40000s"}
    gateway.next_replies = [Reply(429, status(8, "used up", "QUOTA_EXHAUSTED", tomorrow))]
    with pytest.raises(ApiError) as caught:
        await client.search("leave")
    assert (caught.value.retry_after_seconds, len(gateway.requests)) == (40_000, 1)


async def test_a_pause_beyond_the_deadline_is_not_begun(gateway: FakeGateway, client: AsyncClient) -> None:
    gateway.next_replies = [Reply(429, status(8, "too many requests", "RATE_LIMITED", RETRY_LATE))]
    with pytest.raises(ApiError, match="too many requests"):
        await client.search("x", timeout_seconds=20)
    assert len(gateway.requests) == 1


async def test_a_gateway_that_stays_silent_is_left_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        async with AsyncClient(address, "key", timeout_seconds=0.05) as client:
            with pytest.raises(DeadlineExceededError):
                await client.search("x")
            with pytest.raises(DeadlineExceededError):
                await anext(client.chat("x"))
        with Client(address, "key") as blocking, pytest.raises(DeadlineExceededError):
            blocking.search("x", timeout_seconds=0.05)


async def test_a_chat_refused_at_first_is_the_refusal(gateway: FakeGateway, client: AsyncClient) -> None:
    gateway.next_replies = [Reply(400, status(3, "wrong", "INVALID_FIELDS"))]
    with pytest.raises(ApiError, match="wrong"):
        await anext(client.chat(""))


async def test_a_chat_that_ends_in_an_error_event_is_an_error(
    gateway: FakeGateway, client: AsyncClient, blocking: Client
) -> None:
    gateway.chat_events = [{"sequence": 1, "started": {}}, {"sequence": 2, "error": {"message": "broken"}}]
    events = client.chat("x")
    assert await anext(events) == ChatStarted()
    with pytest.raises(ApiError, match="broken"):
        await anext(events)
    with pytest.raises(ApiError, match="broken"):
        list(blocking.chat("x"))


async def test_a_cut_chat_is_an_error(gateway: FakeGateway, client: AsyncClient, blocking: Client) -> None:
    gateway.chat_events = [{"sequence": 1, "started": {}}]
    with pytest.raises(UnreachableError, match="broke off"):
        _ = [event async for event in client.chat("x")]
    with pytest.raises(UnreachableError, match="broke off"):
        list(blocking.chat("x"))


async def test_a_connection_lost_within_a_stream_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(head + b'data: {"started": {}}\r\n\r')

        thread = threading.Thread(target=serve_once)
        thread.start()
        async with AsyncClient(f"http://127.0.0.1:{server.getsockname()[1]}", "key") as client:
            events = client.chat("x")
            assert await anext(events) == ChatStarted()
            with pytest.raises(UnreachableError, match="broke off"):
                await anext(events)
        thread.join()


async def test_a_chat_is_told_event_by_event_and_unknown_events_are_passed_over(
    gateway: FakeGateway, client: AsyncClient, blocking: Client
) -> None:
    gateway.chat_events = [
        {"sequence": 1, "started": {"threadId": "t"}},
        {"sequence": 2, "thinking": {}},
        {"sequence": 3, "delta": {"text": "27"}},
        {"sequence": 4, "completed": {"model": "m"}},
    ]
    expected = [ChatStarted(thread_id="t"), ChatDelta(text="27"), ChatCompleted(model="m")]
    assert [event async for event in client.chat("x")] == expected
    assert list(blocking.chat("x")) == expected


async def test_a_correction_makes_the_answer_of_what_was_sent(
    gateway: FakeGateway, client: AsyncClient, blocking: Client
) -> None:
    gateway.chat_events = [
        {"sequence": 1, "delta": {"text": "It is 2. Good."}},
        {"sequence": 2, "unsupported": {"startOffset": 9, "endOffset": 14}},
        {"sequence": 3, "correction": {"endOffset": 9, "issue": {"reason": "NUMBER_NOT_SUPPORTED"}}},
        {"sequence": 4, "correction": {"text": "It is 1. "}},
        {"sequence": 5, "completed": {"correctedAnswer": "It is 1. Good."}},
    ]
    for events in ([event async for event in client.chat("x")], list(blocking.chat("x"))):
        text = ""
        for event in events:
            match event:
                case ChatDelta():
                    text += event.text
                case AnswerCorrection():
                    text = corrected(text, event)
        assert events[1] == UnsupportedSentence(start_offset=9, end_offset=14)
        assert isinstance(events[-1], ChatCompleted)
        assert text == events[-1].corrected_answer == "It is 1. Good."


CUT_OFF = [
    {"sequence": 1, "eventId": "a-1", "started": {"threadId": "t"}},
    {"sequence": 2, "eventId": "a-2", "delta": {"text": "27 "}},
]
REST = [
    {"sequence": 3, "eventId": "a-3", "delta": {"text": "days"}},
    {"sequence": 4, "eventId": "a-4", "completed": {"model": "m"}},
]


async def test_a_chat_with_a_request_id_goes_on_behind_what_came_last(
    gateway: FakeGateway, client: AsyncClient, blocking: Client
) -> None:
    expected = [
        ChatStarted(thread_id="t"),
        ChatDelta(text="27 "),
        ChatDelta(text="days"),
        ChatCompleted(model="m"),
    ]
    gateway.next_replies = [Reply(200, CUT_OFF), DOWN, Reply(200, REST)]
    assert [event async for event in client.chat("x", request_id="r")] == expected
    gateway.next_replies = [Reply(200, CUT_OFF), Reply(200, REST)]
    assert list(blocking.chat("x", request_id="r")) == expected
    assert gateway.last_event_ids == ["", "a-2", "a-2", "", "a-2"]


async def test_a_chat_that_keeps_breaking_off_is_given_up(
    gateway: FakeGateway, client: AsyncClient, blocking: Client
) -> None:
    gateway.chat_events = CUT_OFF
    with pytest.raises(UnreachableError, match="broke off"):
        [event async for event in client.chat("x", request_id="r")]
    with pytest.raises(UnreachableError, match="broke off"):
        list(blocking.chat("x", request_id="r"))
    assert len(gateway.requests) == 6


async def test_a_chat_without_request_id_is_asked_once(gateway: FakeGateway, client: AsyncClient) -> None:
    gateway.chat_events = CUT_OFF
    with pytest.raises(UnreachableError, match="broke off"):
        [event async for event in client.chat("x")]
    assert len(gateway.requests) == 1


async def test_names_cannot_lead_to_another_path(gateway: FakeGateway, client: AsyncClient) -> None:
    with pytest.raises(ApiError):
        await client.get_collection("../search?x=1")
    assert gateway.paths("GET") == ["/api/collections/..%2Fsearch%3Fx%3D1"]


async def test_all_of_a_list_is_fetched(gateway: FakeGateway, client: AsyncClient, blocking: Client) -> None:
    for name in ("c", "a", "b"):
        await client.create_collection(name)
    assert [found.collection_id async for found in client.list_collections()] == ["a", "b", "c"]
    assert [found.collection_id for found in blocking.list_collections()] == ["a", "b", "c"]
    assert len(gateway.paths("GET")) == 4


@pytest.mark.parametrize(("limit", "pages"), [(0, 0), (1, 1), (2, 1), (3, 2), (9, 2)])
async def test_no_more_of_a_list_is_fetched_than_is_wanted(
    gateway: FakeGateway, client: AsyncClient, limit: int, pages: int
) -> None:
    for name in ("c", "a", "b"):
        await client.create_collection(name)
    found = [found.collection_id async for found in client.list_collections(limit=limit)]
    assert found == ["a", "b", "c"][:limit]
    assert len(gateway.paths("GET")) == pages


async def test_a_job_is_watched_until_it_has_ended_though_its_stream_breaks_off(
    gateway: FakeGateway, client: AsyncClient, blocking: Client
) -> None:
    gateway.jobs["j"] = [ITEM]
    running = {"job": {"jobId": "j", "state": "JOB_STATE_RUNNING"}}
    gateway.next_replies = [Reply(200, [running]), Reply(200, running)]
    changes = [change.job async for change in client.watch_job("j")]
    assert [job.state.name for job in changes if job] == ["RUNNING", "RUNNING", "RUNNING", "DONE"]
    assert has_ended(await client.wait_for_job("j"))
    assert has_ended(blocking.wait_for_job("j"))


async def test_a_job_is_watched_on_from_what_came_last(
    gateway: FakeGateway, client: AsyncClient, blocking: Client
) -> None:
    running = {"eventId": "1", "job": {"jobId": "j", "state": "JOB_STATE_RUNNING"}}
    done = {"eventId": "2", "job": {"jobId": "j", "state": "JOB_STATE_DONE"}, "items": [ITEM]}
    gateway.next_replies = [Reply(200, [running]), Reply(200, [done])] * 2
    changes = [change async for change in client.watch_job("j")]
    assert [len(change.items) for change in changes] == [0, 1]
    assert list(blocking.watch_job("j")) == changes
    assert gateway.paths("GET") == ["/api/jobs/j:watch"] * 4
    assert gateway.last_event_ids == ["", "1", "", "1"]


async def test_an_upload_tells_how_far_it_has_come_and_is_sent_again_from_its_start(
    gateway: FakeGateway, client: AsyncClient, blocking: Client
) -> None:
    content = b"x" * (2 << 20)
    taken = Reply(200, {"job": {"jobId": "j"}, "item": ITEM})
    told: list[int] = []
    gateway.next_replies = [DOWN, taken]
    done = await client.upload_document("docs", content, uri="a.txt", on_progress=told.append)
    assert done.job == IngestionJob(job_id="j")
    assert told == [1 << 20, 2 << 20] * 2
    told.clear()
    gateway.next_replies = [DOWN, taken]
    assert blocking.upload_document("docs", content, uri="a.txt", on_progress=told.append) == done
    assert told == [1 << 20, 2 << 20] * 2


async def test_a_file_that_cannot_be_rewound_is_sent_once(gateway: FakeGateway, client: AsyncClient) -> None:
    class Pipe(BytesIO, RawIOBase):
        def seekable(self) -> bool:
            return False

    gateway.next_replies = [DOWN]
    with pytest.raises(ApiError):
        await client.upload_document("docs", Pipe(b"content"), uri="a.txt")
    assert len(gateway.requests) == 1
