"""Webhooks: a real receiver on loopback, real PostgreSQL, processes that are lost."""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_ingestor.__main__ import open_collector, working
from groundline_ingestor.adapters.postgres.webhooks import PostgresWebhooks
from groundline_ingestor.metrics import WEBHOOK_CALLS
from groundline_ingestor.service.webhooks import LEASE_SECONDS, Webhooks
from groundline_ingestor.settings import IngestorSettings
from groundline_runtime.errors import InvalidArgumentError
from groundline_tests.http_server import Answering, listening
from groundline_tests.ingestor.replica import collector, idle_replica
from groundline_tests.metrics import Metrics
from groundline_tests.runtime import refusal
from pydantic import SecretStr
from structlog.testing import capture_logs

OWNER = (("x-groundline-principals", "user:ann"),)
KEY = bytes(range(32))


@dataclass(frozen=True)
class Notice:
    path: str
    webhook_id: str
    signed: bool
    """Tell whether its signature is made from its id, time and body by KEY."""
    body: dict[str, Any]


@dataclass
class Receiver:
    """A web server that answers notices with the statuses that the test sets, then with 204."""

    url: str = ""
    notices: list[Notice] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    told: threading.Event = field(default_factory=threading.Event)

    def take(self, path: str, headers: Any, body: bytes) -> int:
        webhook_id = headers["webhook-id"]
        signed = f"{webhook_id}.{headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        is_signed = headers["webhook-signature"] == f"v1,{expected}"
        self.notices.append(Notice(path, webhook_id, is_signed, json.loads(body)))
        self.told.set()
        return self.statuses.pop(0) if self.statuses else 204


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(Answering):
        def do_POST(self) -> None:  # noqa: N802
            status = receiver.take(self.path, self.headers, self.given())
            self.answer(status, b"", {"Location": f"{receiver.url}/elsewhere"} if status == 307 else {})

    with listening(Handler) as receiver.url:
        yield receiver


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
async def ingestor(pool: Pool, database_url: str, secrets: Path) -> AsyncIterator[tuple[Any, Any, Any]]:
    """A stub of an ingestor whose worker is not at work, the worker, and the settings."""
    async with collector(secrets_directory=secrets) as target:
        settings = IngestorSettings(database_url=SecretStr(database_url), collector_target=target)
        async with idle_replica(pool, settings) as (stub, worker):
            yield stub, worker, settings


@pytest.fixture(scope="module")
def stub(ingestor: tuple[Any, Any, Any]) -> Any:
    return ingestor[0]


@pytest.fixture
async def collection_id(
    stub: Any, secrets: Path, receiver: Receiver, request: pytest.FixtureRequest
) -> AsyncIterator[str]:
    """A collection whose webhook is the receiver, with its secret."""
    settings = {
        "crawl": {"allowPrivateAddresses": True},
        "webhooks": [{"url": f"{receiver.url}/hook", "secret": "hook-key"}],
    }
    message = json_format.ParseDict(
        {"name": request.node.name[5:60], "settings": settings}, pb.CreateCollectionRequest()
    )
    created = (await stub.CreateCollection(message, metadata=OWNER)).collection.collection_id
    (secrets / created).mkdir()
    (secrets / created / "hook-key").write_text(f"whsec_{base64.b64encode(KEY).decode()}\n")
    yield created
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id=created), metadata=OWNER)


@pytest.fixture(scope="module")
async def webhooks(pool: Pool, ingestor: tuple[Any, Any, Any]) -> AsyncIterator[Webhooks]:
    _, _, settings = ingestor
    async with open_collector(settings) as found:
        yield Webhooks(PostgresWebhooks(pool), found)


async def ingest(stub: Any, collection_id: str) -> str:
    """Id of the job."""
    documents = [{"uri": "secret-plan.md", "text": "The wolpertinger is nocturnal."}]
    request = json_format.ParseDict(
        {"collectionId": collection_id, "documents": documents}, pb.IngestDocumentsRequest()
    )
    return str((await stub.IngestDocuments(request, metadata=OWNER)).job.job_id)


async def ended_job(stub: Any, collection_id: str) -> str:
    """Id of a job that was cancelled before any worker had it."""
    job_id = await ingest(stub, collection_id)
    await stub.CancelJob(pb.CancelJobRequest(job_id=job_id), metadata=OWNER)
    return job_id


async def deliveries(pool: Pool, collection_id: str) -> list[int]:
    """Return how often each notice on its way has been tried."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            "SELECT attempts FROM webhook_deliveries WHERE collection_id = $1", collection_id
        )
    return [row["attempts"] for row in rows]


async def pass_time(pool: Pool, collection_id: str, seconds: float) -> None:
    """Let time pass for the collection's notices."""
    async with acquire(pool) as connection:
        await connection.execute(
            """
            UPDATE webhook_deliveries SET next_attempt_time = next_attempt_time - make_interval(secs => $2)
            WHERE collection_id = $1
            """,
            collection_id,
            seconds,
        )


async def test_a_notice_that_was_not_taken_is_sent_again_as_it_was(
    stub: Any, pool: Pool, collection_id: str, receiver: Receiver, webhooks: Webhooks
) -> None:
    await ended_job(stub, collection_id)
    receiver.statuses = [503, 307]
    await webhooks.tell()
    await webhooks.tell()
    assert len(receiver.notices) == 1, "it waits before it is sent again"
    await pass_time(pool, collection_id, 5)
    await webhooks.tell()
    assert await deliveries(pool, collection_id) == [2]
    await pass_time(pool, collection_id, 300)
    await webhooks.tell()
    assert await deliveries(pool, collection_id) == []
    assert [one.path for one in receiver.notices] == ["/hook"] * 3, "the redirect is not followed"
    assert all(one.signed for one in receiver.notices)
    assert len({one.webhook_id for one in receiver.notices}) == 1
    assert all(one.body == receiver.notices[0].body for one in receiver.notices)


async def test_a_notice_is_given_up_after_eight_attempts_and_the_log_says_so(
    stub: Any, pool: Pool, collection_id: str, receiver: Receiver, webhooks: Webhooks
) -> None:
    metrics, outbox = Metrics(WEBHOOK_CALLS), PostgresWebhooks(pool)
    job_id = await ended_job(stub, collection_id)
    assert await outbox.lag() == 0
    receiver.statuses = [500] * 20
    with capture_logs() as logs:
        for _ in range(10):
            await webhooks.tell()
            assert (await outbox.lag() > 0) == (await deliveries(pool, collection_id) != [])
            await pass_time(pool, collection_id, 86400)
    assert len(receiver.notices) == 8
    assert await deliveries(pool, collection_id) == []
    calls = metrics.points()["groundline.webhooks.calls"]
    counts = {point.attributes["outcome"]: point.value for point in calls}
    assert counts == {"failed": 7, "given_up": 1}
    [given_up] = [one for one in logs if one["event"] == "webhook_given_up"]
    assert (given_up["job_id"], given_up["attempts"]) == (job_id, 8)
    assert given_up["failure"] == "the answer was HTTP 500"
    assert "/hook" not in str(logs), "a path may be a password"


async def test_another_process_sends_what_one_that_was_lost_had_begun(
    stub: Any, pool: Pool, collection_id: str, receiver: Receiver, webhooks: Webhooks
) -> None:
    await ended_job(stub, collection_id)
    lost = PostgresWebhooks(pool)
    await lost.announce()
    [begun] = await lost.lease(10, LEASE_SECONDS)
    await webhooks.tell()
    assert receiver.notices == [], "it is the other's for a while"
    await pass_time(pool, collection_id, LEASE_SECONDS)
    await webhooks.tell()
    assert [one.webhook_id for one in receiver.notices] == [begun.delivery_id]
    await lost.postpone(begun, 0)
    await webhooks.tell()
    assert len(receiver.notices) == 1, "who was taken over from changes nothing"


async def test_processes_that_look_at_once_tell_of_a_job_once(
    stub: Any, pool: Pool, collection_id: str, receiver: Receiver, webhooks: Webhooks
) -> None:
    jobs = {await ended_job(stub, collection_id) for _ in range(3)}
    await asyncio.gather(*(webhooks.tell() for _ in range(4)))
    assert await deliveries(pool, collection_id) == []
    assert sorted(one.body["data"]["jobId"] for one in receiver.notices) == sorted(jobs)


@pytest.mark.parametrize("allowed_by", ["collection", "operator"])
async def test_a_private_address_takes_both_permissions(
    ingestor: tuple[Any, Any, Any],
    pool: Pool,
    secrets: Path,
    collection_id: str,
    receiver: Receiver,
    allowed_by: str,
) -> None:
    stub, _, settings = ingestor
    if allowed_by == "operator":
        url = receiver.url.replace("http:", "https:")
        update = json_format.ParseDict(
            {
                "collectionId": collection_id,
                "settings": {
                    "crawl": {"allowPrivateAddresses": False},
                    "webhooks": [{"url": url, "secret": "hook-key"}],
                },
            },
            pb.UpdateCollectionRequest(),
        )
        await stub.UpdateCollection(update, metadata=OWNER)
    await ended_job(stub, collection_id)
    allowed = allowed_by == "operator"
    async with (
        collector(secrets_directory=secrets, private_addresses=allowed) as target,
        open_collector(settings.model_copy(update={"collector_target": target})) as found,
    ):
        with capture_logs() as logs:
            await Webhooks(PostgresWebhooks(pool), found).tell()
    assert receiver.notices == []
    assert await deliveries(pool, collection_id) == [1]
    [failed] = [one for one in logs if one["event"] == "webhook_failed"]
    assert "is not a public address" in failed["failure"]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"webhooks": [{"url": "http://example.com", "secret": "k"}]}, "settings.webhooks[0].url"),
        ({"webhooks": [{"url": "ftp://example.com", "secret": "k"}]}, "settings.webhooks[0].url"),
        ({"webhooks": [{"url": "https://me:pw@example.com", "secret": "k"}]}, "settings.webhooks[0].url"),
        ({"webhooks": [{"url": "https://example.com"}]}, "settings.webhooks[0].secret"),
        ({"webhooks": [{"url": "https://example.com", "secret": "../k"}]}, "settings.webhooks[0].secret"),
        ({"webhooks": [{"url": "https://example.com", "secret": "k"}] * 2}, "settings.webhooks[1].url"),
        (
            {"webhooks": [{"url": f"https://example.com/{n}", "secret": "k"} for n in range(6)]},
            "settings.webhooks",
        ),
    ],
)
async def test_a_wrong_webhook_is_refused_by_field(stub: Any, settings: dict[str, Any], field: str) -> None:
    request = json_format.ParseDict(
        {"collectionId": "never-made", "settings": settings}, pb.CreateCollectionRequest()
    )
    error = await refusal(stub.CreateCollection(request, metadata=OWNER))
    assert isinstance(error, InvalidArgumentError)
    assert [one.field for one in error.violations] == [field]


async def test_a_secret_that_the_operator_adds_later_signs_the_next_attempt(
    stub: Any, pool: Pool, secrets: Path, collection_id: str, receiver: Receiver, webhooks: Webhooks
) -> None:
    file = secrets / collection_id / "hook-key"
    text = file.read_text()
    file.unlink()
    await ended_job(stub, collection_id)
    with capture_logs() as logs:
        await webhooks.tell()
    assert any("has no secret 'hook-key'" in str(one.get("failure")) for one in logs)
    file.write_text(text)
    await pass_time(pool, collection_id, 5)
    await webhooks.tell()
    assert [one.signed for one in receiver.notices] == [True]


async def test_a_job_that_was_retried_is_told_of_again_when_it_has_ended_again(
    stub: Any, collection_id: str, receiver: Receiver, webhooks: Webhooks
) -> None:
    job_id = await ended_job(stub, collection_id)
    await webhooks.tell()
    await stub.RetryJob(pb.RetryJobRequest(job_id=job_id), metadata=OWNER)
    await webhooks.tell()
    assert len(receiver.notices) == 1, "it is at work again"
    await stub.CancelJob(pb.CancelJobRequest(job_id=job_id), metadata=OWNER)
    await webhooks.tell()
    assert [one.body["data"]["jobId"] for one in receiver.notices] == [job_id, job_id]
    assert receiver.notices[0].webhook_id != receiver.notices[1].webhook_id


async def test_a_webhook_that_was_taken_away_is_told_nothing_more(
    stub: Any, pool: Pool, collection_id: str, receiver: Receiver, webhooks: Webhooks
) -> None:
    await ended_job(stub, collection_id)
    receiver.statuses = [500]
    await webhooks.tell()
    update = pb.UpdateCollectionRequest(collection_id=collection_id)
    update.update_mask.paths.append("settings.webhooks")
    await stub.UpdateCollection(update, metadata=OWNER)
    await pass_time(pool, collection_id, 5)
    await webhooks.tell()
    assert len(receiver.notices) == 1
    assert await deliveries(pool, collection_id) == []


async def test_notices_go_with_their_collection(
    stub: Any, pool: Pool, secrets: Path, receiver: Receiver, webhooks: Webhooks
) -> None:
    request = pb.CreateCollectionRequest(collection_id="soon-gone")
    request.settings.crawl.allow_private_addresses = True
    request.settings.webhooks.add(url=receiver.url, secret="absent")
    await stub.CreateCollection(request, metadata=OWNER)
    await ended_job(stub, "soon-gone")
    await webhooks.tell()
    assert await deliveries(pool, "soon-gone") == [1]
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="soon-gone"), metadata=OWNER)
    assert await deliveries(pool, "soon-gone") == []


async def test_a_worker_tells_of_a_job_that_it_has_done_without_its_content(
    ingestor: tuple[Any, Any, Any], collection_id: str, receiver: Receiver
) -> None:
    stub, worker, settings = ingestor
    async with working(worker, settings):
        job_id = await ingest(stub, collection_id)
        await asyncio.to_thread(receiver.told.wait, 60)
    [notice] = receiver.notices
    assert notice.signed
    assert notice.body["type"] == "job.ended"
    told = notice.body["data"]
    assert (told["jobId"], told["collectionId"]) == (job_id, collection_id)
    assert (told["state"], told["itemCount"], told["doneCount"], told["failedCount"]) == (
        "JOB_STATE_DONE",
        1,
        1,
        0,
    )
    assert told["createTime"] <= told["startTime"] <= told["endTime"] == notice.body["timestamp"]
    assert "wolpertinger" not in json.dumps(notice.body)
    assert "secret-plan" not in json.dumps(notice.body)
