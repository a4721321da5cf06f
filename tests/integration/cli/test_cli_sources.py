"""groundline sources, against a gateway that notes what it is asked."""

import json
from pathlib import Path
from typing import Any

from groundline_tests.gateway.running import FakeGateway, Reply

ID = "123e4567-e89b-12d3-a456-426614174000"
SOURCE = {
    "sourceId": ID,
    "collectionId": "docs",
    "name": "handbook",
    "directory": {"path": "/srv/handbook"},
    "documentCount": 3,
    "lastJob": {"jobId": "job-1", "state": "JOB_STATE_DONE"},
}
LISTED = Reply(200, {"sources": [SOURCE]})


def test_a_file_without_a_source_is_not_sent(groundline: Any, gateway: FakeGateway, tmp_path: Path) -> None:
    file = tmp_path / "source.json"
    for text in ("{", "[]"):
        file.write_text(text)
        result = groundline("sources", "create", "docs", str(file), code=1)
        assert str(file) in result.stderr
    assert gateway.requests == []


def test_a_dry_run_counts_what_would_become_of_documents(groundline: Any, gateway: FakeGateway) -> None:
    groundline("sources", "run", "docs", "handbook", "--dry-run", "--full", code=2)
    assert gateway.requests == []
    done = {"state": "INGESTION_STATE_DONE"}
    gateway.jobs["job-1"] = [
        {**done, "uri": "handbook", "isCrawl": True},
        {**done, "uri": "a.md", "outcome": "INGESTION_OUTCOME_UPDATED"},
        {**done, "uri": "b.md", "outcome": "INGESTION_OUTCOME_DELETED"},
    ]
    gateway.next_replies = [LISTED, Reply(200, {"job": {"jobId": "job-1", "state": "JOB_STATE_QUEUED"}})]
    result = groundline("sources", "run", "docs", "handbook", "--dry-run")
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["a.md", "updated"],
        ["b.md", "deleted"],
    ]
    assert result.stderr == "1 deleted, 1 updated; nothing is stored or deleted\n"
    [(_, path, body)] = [request for request in gateway.requests if request[0] == "POST"]
    assert (path, body["dryRun"]) == (f"/api/collections/docs/sources/{ID}:run", True)


def test_a_source_that_there_is_not_is_named(groundline: Any, gateway: FakeGateway) -> None:
    gateway.next_replies = [LISTED]
    result = groundline("sources", "delete", "docs", "elsewhere", "--yes", code=1)
    assert "docs has no source elsewhere" in result.stderr
    assert gateway.paths("DELETE") == []


def test_a_source_is_created_as_its_file_says(groundline: Any, gateway: FakeGateway, tmp_path: Path) -> None:
    described = {"name": "handbook", "directory": {"path": "/srv/handbook"}}
    (tmp_path / "source.json").write_text(json.dumps(described))
    gateway.next_replies = [Reply(200, {"source": SOURCE})]
    result = groundline("sources", "create", "docs", str(tmp_path / "source.json"))
    [(method, path, body)] = gateway.requests
    assert (method, path) == ("POST", "/api/collections/docs/sources")
    assert body["source"] == described
    assert result.stdout.splitlines()[1].split()[:4] == [ID, "handbook", "directory", "3"]


def test_a_source_is_run_and_deleted_by_its_name(groundline: Any, gateway: FakeGateway) -> None:
    gateway.next_replies = [LISTED, Reply(200, {"job": {"jobId": "job-1", "state": "JOB_STATE_QUEUED"}})]
    result = groundline("sources", "run", "docs", "handbook", "--full", "--detach")
    assert "job-1" in result.stdout
    method, path, body = gateway.requests[-1]
    assert (method, path, body["full"]) == ("POST", f"/api/collections/docs/sources/{ID}:run", True)

    gateway.next_replies = [LISTED, Reply(200, {})]
    groundline("sources", "delete", "docs", "handbook", "--documents", "--yes")
    assert gateway.paths("DELETE") == [f"/api/collections/docs/sources/{ID}"]


def test_a_source_is_changed_to_what_its_file_has_and_null_takes_away(
    groundline: Any, gateway: FakeGateway, tmp_path: Path
) -> None:
    (tmp_path / "changes.json").write_text(json.dumps({"intervalSeconds": 7200, "excludePaths": None}))
    gateway.next_replies = [LISTED, Reply(200, {"source": SOURCE})]
    groundline("sources", "update", "docs", "handbook", str(tmp_path / "changes.json"))
    method, path, body = gateway.requests[-1]
    assert (method, path) == ("PATCH", f"/api/collections/docs/sources/{ID}")
    assert body["intervalSeconds"] == 7200
    assert "excludePaths" not in body
    assert set(body["updateMask"].split(",")) == {"intervalSeconds", "excludePaths"}


def test_a_dry_crawl_lists_what_would_become_of_pages(groundline: Any, gateway: FakeGateway) -> None:
    gateway.collections["docs"] = {}
    gateway.site = [
        {"uri": "https://a.test/", "isCrawl": True, "state": "INGESTION_STATE_DONE"},
        {
            "uri": "https://a.test/new",
            "outcome": "INGESTION_OUTCOME_CREATED",
            "state": "INGESTION_STATE_DONE",
        },
        {
            "uri": "https://a.test/gone",
            "failure": {"message": "the server answered 404"},
            "state": "INGESTION_STATE_FAILED",
        },
    ]
    result = groundline("crawl", "a.test", "--collection", "docs", "--dry-run")
    assert gateway.requests[0][2]["dryRun"] is True
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()[1:]]
    assert lines == [
        ["https://a.test/new", "created"],
        ["https://a.test/gone", "failed: the server answered 404"],
    ]


def test_a_source_is_paused_and_resumed(groundline: Any, gateway: FakeGateway) -> None:
    for command, is_paused in (("pause", True), ("resume", False)):
        gateway.next_replies = [LISTED, Reply(200, {"source": SOURCE | {"isPaused": is_paused}})]
        result = groundline("sources", command, "docs", "handbook")
        method, _, body = gateway.requests[-1]
        assert (method, body["isPaused"]) == ("PATCH", is_paused)
        assert ("paused" in result.stdout) == is_paused
