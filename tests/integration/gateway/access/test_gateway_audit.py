"""Who did what to which resource, with which outcome: a stream of its own, without content."""

import json
from pathlib import Path
from typing import Any

import pytest
from groundline_tests.runtime import OtlpCollector

ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789"
KEYS = [
    {"key": ALICE, "client": "alice", "principals": ["user:alice", "group:staff"]},
    {"key": BOB, "client": "bob", "principals": ["user:bob"], "scopes": ["search"]},
]


@pytest.fixture
async def collector() -> Any:
    async with OtlpCollector() as collector:
        yield collector


async def test_every_call_is_in_the_audit_log(
    upstream: Any, launch: Any, collector: OtlpCollector, tmp_path: Path
) -> None:
    log = tmp_path / "audit.log"
    changes = {"api_keys": KEYS, "audit_log_file": log, "otlp_endpoint": collector.endpoint}
    async with launch(**changes) as gateway:
        await gateway.becomes(200)
        async with gateway.client(ALICE) as alice:
            document = {"uri": "secret-name", "text": "secret-text"}
            await alice.post("/api/collections/docs/documents", json={"documents": [document]})
            await alice.get("/api/threads/t1", params={"pageToken": "secret-token"})
            await alice.post("/api/answer", json={"secretField": 1})
        async with gateway.client(BOB) as bob:
            await bob.delete("/api/collections/docs")
        async with gateway.client("wrong-key-0123456789") as stranger:
            await stranger.get("/api/jobs/j1")
            await stranger.get("/")
            await stranger.get("/healthz")
        records = await collector.wait_for_records(5)

    text = log.read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    seen = [
        tuple(entry.get(name) for name in ("client", "credential", "action", "resource", "status"))
        for entry in entries
    ]
    assert seen == [
        ("alice", "key", "IngestDocuments", "/api/collections/docs/documents", 200),
        ("alice", "key", "GetThread", "/api/threads/t1", 200),
        ("alice", "key", "Answer", "/api/answer", 400),
        ("bob", "key", "DeleteCollection", "/api/collections/docs", 403),
        (None, None, "GetJob", "/api/jobs/j1", 401),
    ]
    assert [(each.service, each.trace_id) for each in records] == [
        ("groundline-gateway", entry.get("trace_id", "")) for entry in entries
    ]
    assert [each.attributes["action"] for each in records] == [entry["action"] for entry in entries]
    assert records[0].attributes["client"] == "alice"
    assert records[3].attributes["status"] == "403"
    assert entries[0]["event"] == "audit"
    assert entries[0]["principals"] == "user:alice,group:staff"
    traces = {call.values("traceparent")[0].split("-")[1] for call in upstream.calls}
    assert {entry["trace_id"] for entry in entries[:2]} == traces
    assert all(entry["request_id"] and entry["peer"] == "127.0.0.1" for entry in entries)
    for secret in ("secret", ALICE, BOB, "wrong-key"):
        assert secret not in text


async def test_without_a_file_it_goes_to_standard_error(upstream: Any, launch: Any) -> None:
    async with launch() as gateway, gateway.client(ALICE) as alice:
        await gateway.becomes(200)
        await alice.get("/api/threads")

    # The test sends both streams to one file.
    audit = [line for line in gateway.log.read_text().splitlines() if '"event":"audit"' in line]
    assert [json.loads(line)["action"] for line in audit] == ["ListThreads"]
