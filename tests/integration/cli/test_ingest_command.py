import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from groundline_cli.ingestion import UploadProgress, has_collections, ingest_paths
from groundline_tests.gateway.running import FakeGateway, Reply, Run, status

# ingest


def test_a_failing_file_is_named_and_others_go_on(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    (docs / "blank.md").write_text(" \n")
    (docs / "no.md").write_text("no")
    (docs / "no.md.meta.json").write_text("[]")
    (docs / "z\x1b[2J.md").write_text("unreadable for the ingestor")
    result = groundline("ingest", str(docs), "--collection", "docs", code=4)
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
    assert "skipped, within other documents:\n  a.eml!/c.exe: a program\n" in result.stderr
    assert result.stdout == (
        "docs: 2 new, 0 changed, 0 unchanged, 1 skipped (1 within other documents); 2 chunks stored\n"
    )


def test_ingesting_nothing_ends_with_1(groundline: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    (tmp_path / "blank.md").write_text(" ")
    (tmp_path / "good.md").write_text("good")
    blank, good = str(tmp_path / "blank.md"), str(tmp_path / "good.md")
    groundline("ingest", blank, "--collection", "docs", code=1)
    groundline("ingest", blank, good, "--collection", "docs", "--detach", code=4)


def test_a_web_address_is_no_path(groundline: Run, gateway: FakeGateway) -> None:
    result = groundline("ingest", "https://site.test", "--collection", "docs", code=2)
    assert "groundline crawl" in result.stderr


def test_each_file_tells_the_server_its_type(groundline: Run, gateway: FakeGateway, tmp_path: Path) -> None:
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
    groundline(
        *("ingest", str(docs), "--collection", "docs", "--metadata", '{"team": "people", "year": 2023}'),
        *("--principal", "group:staff", "--principal", "user:ann", "--charset", "Latin-1"),
    )
    sent = gateway.documents["docs"]
    assert sent["a.md"]["title"] == "Leave"
    assert sent["a.md"]["metadata"] == {"team": "people", "year": 2024}
    assert sent["a.md"]["allowedPrincipals"] == ["group:hr"]
    assert sent["sub/b.txt"]["allowedPrincipals"] == ["group:staff", "user:ann"]
    assert sent["latin.csv"]["mimeType"] == "text/csv; charset=iso8859-1"
    assert "a.md.meta.json" not in sent
    groundline("ingest", str(docs / "sub" / "b.txt"), "--collection", "docs", "--title", "Costs")
    assert gateway.documents["docs"]["b.txt"]["title"] == "Costs"


@pytest.mark.parametrize(
    "arguments", [("--charset", "klingon"), ("--metadata", "[]"), ("--title", "for all")]
)
def test_what_cannot_be_said_of_files_is_wrong_usage(
    groundline: Run, gateway: FakeGateway, docs: Path, arguments: tuple[str, ...]
) -> None:
    groundline("ingest", str(docs), "--collection", "docs", *arguments, code=2)
    assert not gateway.requests


def test_what_concerns_all_files_ends_the_command(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    result = groundline("ingest", str(docs), "--collection", "docs", "--no-create", code=1)
    assert "error: nothing at /api/collections/docs/documents (NOT_FOUND)" in result.stderr
    gateway.next_replies = [Reply(403, status(7, "you may not", "PERMISSION_DENIED"))]
    assert "you may not" in groundline("ingest", str(docs), "--collection", "docs", code=1).stderr


def test_ingesting_again_changes_what_has_changed(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
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


def test_a_collection_is_created_for_the_language_of_most_texts_and_that_is_said(
    groundline: Run, gateway: FakeGateway, tmp_path: Path
) -> None:
    handbook = tmp_path / "handbuch"
    handbook.mkdir()
    (handbook / "reisen.md").write_text("Reisen bis zu drei Tagen genehmigt die Teamleitung.")
    (handbook / "urlaub.html").write_text("<p>Der Urlaub ist bis zum Ende des Jahres zu nehmen.</p>")
    (handbook / "hinweis.txt").write_text("The office is closed on Fridays.")
    (handbook / "preise.pdf").write_bytes(b"%PDF-1.7 der die das und")
    for number in range(3):
        (handbook / f"{number}.csv").write_text("DN-4;12345")
    result = groundline("ingest", str(handbook), "--collection", "handbuch")
    assert "handbuch: created for german" in result.stderr
    assert gateway.collections["handbuch"]["settings"]["lexical"] == {"language": "german"}
    again = groundline("ingest", str(handbook), "--collection", "handbuch")
    assert "created for" not in again.stderr


@pytest.mark.parametrize(
    "texts",
    [
        ["The office is closed.", "Das Büro ist geschlossen."],
        ["The office is closed.", "It is open.", "Das Büro ist geschlossen."],
        ["DN-4", "12345"],
    ],
)
def test_a_collection_is_english_where_no_other_language_has_most_texts(
    groundline: Run, gateway: FakeGateway, tmp_path: Path, texts: list[str]
) -> None:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    result = groundline("ingest", str(tmp_path), "--collection", "docs")
    assert "created for" not in result.stderr
    assert "lexical" not in gateway.collections["docs"].get("settings", {})


def test_a_dry_run_only_tells(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs", "--dry-run", code=1)
    gateway.collections["docs"] = {"collectionId": "docs"}
    result = groundline("ingest", str(docs), "--collection", "docs", "--dry-run")
    assert result.stdout.splitlines() == [
        "docs: 3 documents with 6 chunks, 2 skipped (1 hidden, 1 unsupported type); nothing is stored",
        "contexts by a language model: about 90 prompt tokens, of them 0 cached, 21 output tokens",
    ]
    assert "docs" not in gateway.documents
    (docs / "no.md").write_text("no")
    (docs / "no.md.meta.json").write_text("{")
    as_json = groundline("ingest", str(docs), "--collection", "docs", "--dry-run", "--json", code=4)
    assert json.loads(as_json.stdout)["promptTokens"] == 90


def test_an_empty_folder_makes_no_collection(groundline: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    groundline("ingest", str(tmp_path), "--collection", "docs")
    assert not gateway.collections


def test_handing_in_without_waiting_names_the_job(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    gateway.jobs_take_time = True
    result = groundline("ingest", str(docs), "--collection", "docs", "--detach")
    assert result.stdout.splitlines() == ["docs: handed in; see groundline jobs", "job-1"]
    assert not [path for path in gateway.paths("GET") if "jobs" in path]
    assert groundline("jobs", "job-1", "--watch").stdout.splitlines()[1].split()[:2] == ["job-1", "done"]


def test_a_filters_choice_is_asked_for_and_deleted(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    ids = [document["documentId"] for document in gateway.documents["docs"].values()]
    both = ("delete", "docs", "--filter", json.dumps({"$document_id": {"$in": ids}}))
    count = len(ids)
    assert groundline(*both, "--dry-run").stdout == f"{count} documents of docs would be deleted\n"
    refused = groundline(*both, input="n\n", code=1)
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
    groundline("crawl", "https://a.test", "--collection", "site", code=1)


def test_a_crawl_need_not_be_waited_for(groundline: Run, gateway: FakeGateway) -> None:
    gateway.site = [CRAWL]
    result = groundline("crawl", "https://a.test", "--collection", "site", "--detach")
    assert result.stdout.splitlines() == ["site: handed in; see groundline jobs", "job-1"]


def test_jobs_are_cancelled_and_retried(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("jobs", "--cancel", code=2)
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
    refused = groundline("sync", str(docs), "--collection", "docs", input="n\n", code=1)
    assert "Delete 1 document of docs, whose files are gone?" in refused.stdout
    assert "a.md" in refused.stderr
    assert {method for method, *_ in gateway.requests[requests:]} == {"GET"}
    result = groundline("sync", str(docs), "--collection", "docs", "--yes")
    assert "1 document deleted" in result.stdout
    assert len(gateway.paths("DELETE")) == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    groundline("sync", str(empty), "--collection", "docs", "--yes")
    assert len(gateway.paths("DELETE")) == 1


@pytest.mark.usefixtures("not_root")
def test_sync_keeps_what_it_could_not_see(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    (docs / "sub").chmod(0)
    try:
        groundline("sync", str(docs), "--collection", "docs", "--yes", code=4)
    finally:
        (docs / "sub").chmod(0o700)
    assert not gateway.paths("DELETE")
    groundline("sync", str(docs), "--collection", "docs", "--yes", "--exclude", "sub")
    assert not gateway.paths("DELETE")


def test_a_reindex_sends_only_what_is_given(groundline: Run, gateway: FakeGateway, docs: Path) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    groundline("reindex", "docs", "--chunk-size", "500")
    [body] = [body for _, path, body in gateway.requests if path.endswith(":reindex")]
    assert body["settings"] == {"chunking": {"chunkSize": 500}}


@pytest.mark.parametrize(
    "options",
    [
        ("--revert", "--reclaim"),
        ("--revert", "--chunk-size", "500"),
        ("--reclaim", "--keep"),
        ("--gate", ".", "--hold"),
        ("--gate", ".", "--detach"),
        ("--gate", ".", "--modes", "none"),
    ],
)
def test_a_wrong_reindex_is_refused(groundline: Run, gateway: FakeGateway, options: Sequence[str]) -> None:
    groundline("reindex", "docs", *options, code=2)
    assert not gateway.requests


def test_a_gate_that_can_tell_nothing_is_refused_before_an_index_is_built(
    groundline: Run, gateway: FakeGateway, docs: Path, tmp_path: Path
) -> None:
    groundline("ingest", str(docs), "--collection", "docs")
    evaluation_set = tmp_path / "set"
    evaluation_set.mkdir()
    (evaluation_set / "queries.jsonl").write_text('{"id": "1", "text": "days?", "answers": ["28"]}\n')
    (evaluation_set / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\n")
    result = groundline("reindex", "docs", "--gate", str(evaluation_set), code=1)
    assert "no question has a relevant document" in result.stderr
    assert not [path for _, path, *_ in gateway.requests if path.endswith(":reindex")]


@pytest.mark.parametrize("jobs_take_time", [False, True])
async def test_progress_reaches_all_files(gateway: FakeGateway, tmp_path: Path, jobs_take_time: bool) -> None:
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


async def test_a_document_that_is_too_large_is_its_failure(gateway: FakeGateway, tmp_path: Path) -> None:
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
