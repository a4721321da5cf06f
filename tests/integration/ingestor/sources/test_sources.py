"""Sources: a real server of each kind, real PostgreSQL, workers that are killed."""

import asyncio
import base64
import gzip
import hashlib
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest
from google.protobuf import json_format
from groundline.v1 import error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_tests.ingestor.mail_server import DOVECOT, PASSWORD, USER, MailServer, mail_server
from groundline_tests.ingestor.replica import replica
from groundline_tests.ingestor.site import Site, serving
from groundline_tests.ingestor.webdav import DENY, GRANT, WebdavServer, serving_webdav
from groundline_tests.programs import needs_program
from groundline_tests.relay import over_tcp
from groundline_tests.runtime import refusal
from minio import Minio
from moto.server import ThreadedMotoServer

OWNER, STRANGER = (("x-groundline-principals", "user:ann"),), (("x-groundline-principals", "user:bob"),)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that sources may read."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
async def stub(pool: Pool, database_url: str, shared: Path, secrets: Path) -> AsyncIterator[Any]:
    async with replica(
        pool, database_url, collecting={"source_directories": (shared,), "secrets_directory": secrets}
    ) as stub:
        yield stub


@pytest.fixture
async def collection_id(stub: Any, secrets: Path, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A collection of user:ann's with a folder for secrets."""
    settings = {"crawl": {"allowPrivateAddresses": True}}
    message = json_format.ParseDict(
        {"name": request.node.name[5:60], "settings": settings}, pb.CreateCollectionRequest()
    )
    created = (await stub.CreateCollection(message, metadata=OWNER)).collection.collection_id
    (secrets / created).mkdir(exist_ok=True)
    yield created
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id=created), metadata=OWNER)


async def create(stub: Any, collection_id: str, source: dict[str, Any], metadata: Any = OWNER) -> str:
    """Id of the source."""
    request = {"collectionId": collection_id, "source": {"name": "handbook", **source}}
    answer = await stub.CreateSource(
        json_format.ParseDict(request, pb.CreateSourceRequest()), metadata=metadata
    )
    return str(answer.source.source_id)


async def update_refused(stub: Any, collection_id: str, source_id: str, change: dict[str, Any]) -> list[str]:
    """Return the fields for which a change is refused."""
    request = {"collectionId": collection_id, "sourceId": source_id, **change}
    update = json_format.ParseDict(request, pb.UpdateSourceRequest())
    return [one.field for one in (await refusal(stub.UpdateSource(update, metadata=OWNER))).violations]


async def get(stub: Any, collection_id: str, source_id: str) -> Any:
    request = pb.GetSourceRequest(collection_id=collection_id, source_id=source_id)
    return (await stub.GetSource(request, metadata=OWNER)).source


async def first_run(stub: Any, collection_id: str, source_id: str) -> dict[str, str]:
    """Return the outcome of each document, when the run that begins by itself has ended."""
    return await ended(stub, await job_after(stub, collection_id, source_id, ""))


async def job_after(stub: Any, collection_id: str, source_id: str, earlier: str) -> str:
    """Return the id of the job of the run that follows an earlier one."""
    async with asyncio.timeout(60):
        while True:
            job_id = (await get(stub, collection_id, source_id)).last_job.job_id
            if job_id not in ("", earlier):  # one that found nothing goes when the next begins
                return str(job_id)
            await asyncio.sleep(0.05)


async def run(stub: Any, collection_id: str, source_id: str, *, full: bool = False) -> dict[str, str]:
    request = pb.RunSourceRequest(collection_id=collection_id, source_id=source_id, full=full)
    return await ended(stub, (await stub.RunSource(request, metadata=OWNER)).job.job_id)


async def preview(stub: Any, collection_id: str, source_id: str) -> dict[str, str]:
    """Return what a run would do, by a dry one."""
    request = pb.RunSourceRequest(collection_id=collection_id, source_id=source_id, dry_run=True)
    job = (await stub.RunSource(request, metadata=OWNER)).job
    assert job.is_dry_run
    return await ended(stub, job.job_id)


async def ended(stub: Any, job_id: str) -> dict[str, str]:
    """Return the outcomes or failures by uri, of all but the run itself if that is done."""
    async with asyncio.timeout(60):
        async for _ in stub.WatchJob(pb.WatchJobRequest(job_id=job_id), metadata=OWNER):
            pass
    found = await stub.GetJob(pb.GetJobRequest(job_id=job_id, page_size=1000), metadata=OWNER)
    return {
        item.uri: error_pb2.ErrorReason.Name(item.failure.reason)
        if item.HasField("failure")
        else job_pb2.IngestionOutcome.Name(item.outcome).removeprefix("INGESTION_OUTCOME_")
        for item in found.items
        if not item.is_crawl or item.HasField("failure")
    }


async def documents(stub: Any, collection_id: str) -> dict[str, Any]:
    """Return documents by uri."""
    answer = await stub.ListDocuments(pb.ListDocumentsRequest(collection_id=collection_id), metadata=OWNER)
    return {one.uri: one for one in answer.documents}


async def text_of(stub: Any, document: Any) -> str:
    request = pb.GetDocumentTextRequest(
        collection_id=document.collection_id, document_id=document.document_id
    )
    return str((await stub.GetDocumentText(request, metadata=OWNER)).text)


# --- sources ---


async def test_a_wrong_source_is_refused_with_every_wrong_field(stub: Any, collection_id: str) -> None:
    source = {
        "name": "",
        "s3": {"endpointUrl": "https://u:p@s3.test/x", "bucket": "b", "accessKeySecret": "../x"},
        "intervalSeconds": 5,
    }
    error = await refusal(create(stub, collection_id, source))
    assert {violation.field for violation in error.violations} == {
        "source.name",
        "source.s3.endpoint_url",
        "source.s3.bucket",
        "source.s3.access_key_secret",
        "source.s3.secret_key_secret",
        "source.interval_seconds",
    }


async def test_a_directory_that_the_operator_does_not_allow_is_refused(
    stub: Any, collection_id: str, shared: Path, tmp_path: Path
) -> None:
    (shared / "way-out").symlink_to(tmp_path)
    for path in (tmp_path, shared / ".." / "elsewhere", shared / "way-out"):
        for kind in ("directory", "mbox"):
            error = await refusal(create(stub, collection_id, {kind: {"path": str(path)}}))
            assert error.reason == "SOURCE_NOT_AVAILABLE"


async def test_a_secret_of_another_collection_is_refused(
    stub: Any, collection_id: str, secrets: Path
) -> None:
    (secrets / "other").mkdir()
    (secrets / "other" / "database").write_text("postgresql://localhost/x")
    query = {"urlSecret": "database", "query": "SELECT 1 AS id", "idColumn": "id"}
    error = await refusal(create(stub, collection_id, {"postgres": query}))
    assert error.reason == "SOURCE_NOT_AVAILABLE"


async def test_only_who_administers_the_collection_may_have_sources(
    stub: Any, collection_id: str, shared: Path
) -> None:
    error = await refusal(create(stub, collection_id, {"directory": {"path": str(shared)}}, STRANGER))
    assert error.reason == "COLLECTION_NOT_FOUND"


async def test_a_name_is_given_once(stub: Any, collection_id: str, shared: Path) -> None:
    (shared / "names").mkdir()
    source = {"directory": {"path": str(shared / "names")}}
    await create(stub, collection_id, source)
    assert (await refusal(create(stub, collection_id, source))).reason == "SOURCE_NAME_TAKEN"


async def test_an_address_that_is_not_the_internets_is_not_reached_unless_both_allow_it(
    pool: Pool, database_url: str, stub: Any, shared: Path, secrets: Path
) -> None:
    request = pb.CreateCollectionRequest(collection_id="walled")
    await stub.CreateCollection(request, metadata=OWNER)
    (secrets / "walled").mkdir()
    (secrets / "walled" / "database").write_text("postgresql://127.0.0.1:1/x")
    sources: list[dict[str, Any]] = [
        {"name": "web", "web": {"startUrl": "http://127.0.0.1:1/"}},
        {"name": "git", "git": {"url": "http://127.0.0.1:1/a.git"}},
        {"name": "s3", "s3": {"endpointUrl": "http://127.0.0.1:1", "bucket": "handbook"}},
        {"name": "feed", "feed": {"url": "http://127.0.0.1:1/feed"}},
        {
            "name": "imap",
            "imap": {"host": "127.0.0.1", "port": 1, "username": "ann", "passwordSecret": "database"},
        },
        {
            "name": "postgres",
            "postgres": {"urlSecret": "database", "query": "SELECT 1 AS id", "idColumn": "id"},
        },
    ]
    for source in sources:
        outcomes = await first_run(stub, "walled", await create(stub, "walled", source))
        assert list(outcomes.values()) == ["ADDRESS_NOT_ALLOWED"], source["name"]
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="walled"), metadata=OWNER)


async def test_a_source_runs_again_by_itself(pool: Pool, stub: Any, collection_id: str, shared: Path) -> None:
    folder = shared / "scheduled"
    folder.mkdir()
    source_id = await create(
        stub, collection_id, {"directory": {"path": str(folder)}, "intervalSeconds": 3600}
    )
    assert await first_run(stub, collection_id, source_id) == {}
    (folder / "a.md").write_text("# Leave\n\nEverybody has leave.")
    before = await get(stub, collection_id, source_id)
    assert 0.8 < (before.next_run_time.seconds - before.create_time.seconds) / 3600 < 1.2
    await make_due(pool, source_id)
    job_id = await job_after(stub, collection_id, source_id, before.last_job.job_id)
    assert await ended(stub, job_id) == {"a.md": "CREATED"}


async def update(stub: Any, collection_id: str, source_id: str, **change: Any) -> Any:
    """Change the source; `change` is in JSON. Return the source afterwards."""
    request = {"collectionId": collection_id, "sourceId": source_id, **change}
    answer = await stub.UpdateSource(json_format.ParseDict(request, pb.UpdateSourceRequest()), metadata=OWNER)
    return answer.source


async def make_due(pool: Pool, source_id: str) -> None:
    async with acquire(pool) as connection:
        await connection.execute(
            "UPDATE sources SET next_run_time = now() WHERE source_id = $1::uuid", source_id
        )
        await connection.execute("SELECT pg_notify('groundline_items', '')")


async def test_a_change_that_makes_a_source_wrong_is_refused_with_every_wrong_field(
    stub: Any, collection_id: str, shared: Path
) -> None:
    (shared / "refused").mkdir()
    for name in ("handbook", "taken"):
        source_id = await create(
            stub, collection_id, {"name": name, "directory": {"path": str(shared / "refused")}}
        )
    web = {"web": {"startUrl": "https://site.test/"}, "uriPrefix": "x/", "includePaths": ["docs/**"]}
    refusals: dict[frozenset[str], dict[str, Any]] = {
        frozenset({"uri_prefix", "include_paths[0]"}): web,
        frozenset({"update_mask"}): {"updateMask": "name,sourceId"},
        frozenset({"name", "interval_seconds"}): {"name": "x" * 101, "intervalSeconds": 5},
    }
    for fields, change in refusals.items():
        error = await refusal(update(stub, collection_id, source_id, **change))
        assert {violation.field for violation in error.violations} == fields
    others: dict[str, dict[str, Any]] = {
        "SOURCE_NAME_TAKEN": {"name": "handbook"},
        "SOURCE_NOT_AVAILABLE": {"directory": {"path": "/etc"}},
    }
    for reason, change in others.items():
        assert (await refusal(update(stub, collection_id, source_id, **change))).reason == reason
    missing = update(stub, collection_id, "123e4567-e89b-12d3-a456-426614174000", name="x")
    assert (await refusal(missing)).reason == "SOURCE_NOT_FOUND"
    assert (await get(stub, collection_id, source_id)).name == "taken"


async def test_a_paused_source_runs_only_when_it_is_asked_to_and_goes_on_where_it_was(
    stub: Any, collection_id: str, shared: Path
) -> None:
    folder = shared / "paused"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nA text.")
    described = {"directory": {"path": str(folder)}, "intervalSeconds": 3600, "isPaused": True}
    source_id = await create(stub, collection_id, described)
    created = await get(stub, collection_id, source_id)
    assert created.is_paused
    assert not created.HasField("next_run_time")
    assert not created.HasField("last_job")
    assert await run(stub, collection_id, source_id) == {"a.md": "CREATED"}

    asked = (await get(stub, collection_id, source_id)).last_job.job_id
    (folder / "b.md").write_text("# B\n\nAnother text.")
    resumed = await update(stub, collection_id, source_id, isPaused=False)
    assert not resumed.is_paused
    job_id = await job_after(stub, collection_id, source_id, asked)
    assert await ended(stub, job_id) == {"b.md": "CREATED"}
    paused = await update(stub, collection_id, source_id, isPaused=True)
    assert not paused.HasField("next_run_time")
    assert paused.interval_seconds == 3600


async def test_a_new_interval_counts_from_now_and_leaves_what_is_known(
    stub: Any, collection_id: str, shared: Path
) -> None:
    folder = shared / "interval"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nA text.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    await first_run(stub, collection_id, source_id)
    job = (await get(stub, collection_id, source_id)).last_job
    changed = await update(stub, collection_id, source_id, intervalSeconds=7200, name="renamed")
    assert changed.name == "renamed"
    assert 0.8 < (changed.next_run_time.seconds - job.create_time.seconds) / 7200 < 1.3
    assert changed.last_job.job_id == job.job_id
    assert await run(stub, collection_id, source_id) == {}
    cleared = await update(stub, collection_id, source_id, updateMask="intervalSeconds")
    assert not cleared.HasField("interval_seconds")
    assert not cleared.HasField("next_run_time")


async def test_what_a_source_reads_from_now_on_is_read_at_once_and_whole(
    stub: Any, collection_id: str, shared: Path
) -> None:
    folder = shared / "changed"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"# {name}\n\nA text.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    await first_run(stub, collection_id, source_id)
    earlier = (await get(stub, collection_id, source_id)).last_job.job_id
    await update(stub, collection_id, source_id, metadata={"team": "people"}, excludePaths=["b.md"])
    job_id = await job_after(stub, collection_id, source_id, earlier)
    assert await ended(stub, job_id) == {"a.md": "UPDATED"}
    found = await documents(stub, collection_id)
    assert {uri: one.metadata["team"] for uri, one in found.items()} == {"a.md": "people"}


async def test_a_run_at_work_ends_when_what_it_reads_changes(stub: Any, collection_id: str) -> None:
    with serving(Site()) as site:
        site.put("/", "Welcome to the handbook.", "/leave")
        site.put("/leave", "Everybody has twenty-seven days of leave.")
        site.hold("/leave")
        source_id = await create(stub, collection_id, {"web": {"startUrl": site.url, "delaySeconds": 0}})
        await site.is_asked_for("/leave")
        held = (await get(stub, collection_id, source_id)).last_job.job_id
        await update(stub, collection_id, source_id, excludePaths=["/leave"])
        site.held["/leave"].answer.set()
        await ended(stub, held)
        await ended(stub, await job_after(stub, collection_id, source_id, held))
        assert set(await documents(stub, collection_id)) == {f"{site.url}/"}


async def administered_by(stub: Any, collection_id: str, *names: str) -> None:
    """Have these users administer the collection, and nobody else write it."""
    change = pb.UpdateCollectionRequest(collection_id=collection_id)
    change.settings.access.readers.append("*")
    for principals in (change.settings.access.writers, change.settings.access.admins):
        principals.extend(f"user:{name}" for name in names)
    change.update_mask.paths.append("settings.access")
    await stub.UpdateCollection(change, metadata=OWNER)


async def test_a_run_at_work_ends_when_who_made_the_source_may_no_longer_write(
    stub: Any, collection_id: str
) -> None:
    await administered_by(stub, collection_id, "ann", "bob")
    with serving(Site()) as site:
        site.put("/", "Welcome to the handbook.", "/leave")
        site.put("/leave", "Everybody has twenty-seven days of leave.")
        site.hold("/leave")
        web = {"web": {"startUrl": site.url, "delaySeconds": 0}}
        source_id = await create(stub, collection_id, web, STRANGER)
        await site.is_asked_for("/leave")
        job_id = (await get(stub, collection_id, source_id)).last_job.job_id
        await administered_by(stub, collection_id, "ann")
        # The page is still not answered: the run does not end because the site does.
        outcomes = await ended(stub, job_id)
        site.held["/leave"].answer.set()
    assert outcomes.pop("handbook") == "COLLECTION_NOT_WRITABLE"
    assert set(outcomes.values()) <= {"CREATED", "COLLECTION_NOT_WRITABLE"}
    assert f"{site.url}/leave" not in await documents(stub, collection_id)


async def test_runs_of_who_may_no_longer_write_fail_and_say_so_until_another_changes_the_source(
    pool: Pool, stub: Any, collection_id: str, shared: Path
) -> None:
    await administered_by(stub, collection_id, "ann", "bob")
    folder = shared / "left"
    folder.mkdir()
    source_id = await create(
        stub,
        collection_id,
        {"directory": {"path": str(folder)}, "intervalSeconds": 3600},
        STRANGER,
    )
    await first_run(stub, collection_id, source_id)
    await administered_by(stub, collection_id, "ann")
    (folder / "a.md").write_text("# Leave\n\nEverybody has leave.")
    before = (await get(stub, collection_id, source_id)).last_job.job_id
    await make_due(pool, source_id)
    job_id = await job_after(stub, collection_id, source_id, before)
    assert await ended(stub, job_id) == {"handbook": "COLLECTION_NOT_WRITABLE"}
    assert await documents(stub, collection_id) == {}
    await update(stub, collection_id, source_id, metadata={"team": "people"})
    assert await ended(stub, await job_after(stub, collection_id, source_id, job_id)) == {"a.md": "CREATED"}


# --- directory ---


async def test_a_directory_is_followed(stub: Any, collection_id: str, shared: Path) -> None:
    folder = shared / "handbook"
    (folder / "hr").mkdir(parents=True)
    (folder / "hr" / "leave.md").write_text("# Leave\n\nEverybody has twenty-seven days.")
    (folder / "travel.md").write_text("# Travel\n\nBy train.")
    (folder / "notes.txt").write_text("Not wanted.")
    (folder / ".hidden.md").write_text("Not shown.")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 no more")
    (folder / "passwd.md").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.md")
    source = {
        "directory": {"path": str(folder)},
        "includePaths": ["**.md", "**.pdf"],
        "uriPrefix": "files/",
        "metadata": {"team": "people"},
        "allowedPrincipals": ["user:ann"],
    }
    source_id = await create(stub, collection_id, source)
    created = {"files/hr/leave.md": "CREATED", "files/travel.md": "CREATED"}
    broken = {"files/broken.pdf": "CORRUPT_DOCUMENT"}
    assert await first_run(stub, collection_id, source_id) == created | broken
    found = await documents(stub, collection_id)
    assert found["files/travel.md"].metadata["team"] == "people"
    assert list(found["files/travel.md"].allowed_principals) == ["user:ann"]
    assert await run(stub, collection_id, source_id) == {}

    (folder / "travel.md").write_text("# Travel\n\nBy train, or by ship.")
    (folder / "hr" / "leave.md").unlink()
    (folder / "hr" / "pay.md").write_text("# Pay\n\nAt the end of the month.")
    assert await run(stub, collection_id, source_id) == {
        "files/travel.md": "UPDATED",
        "files/hr/pay.md": "CREATED",
    }
    after = await get(stub, collection_id, source_id)
    assert (after.document_count, after.last_job.deleted_count) == (3, 1)
    assert set(await documents(stub, collection_id)) == {
        "files/travel.md",
        "files/hr/pay.md",
        "files/broken.pdf",
    }


async def test_a_directory_that_is_gone_deletes_nothing(stub: Any, collection_id: str, shared: Path) -> None:
    folder = shared / "unmounted"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nA text.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    await first_run(stub, collection_id, source_id)
    folder.rename(shared / "elsewhere")
    assert await run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
    assert set(await documents(stub, collection_id)) == {"a.md"}


async def test_a_document_deleted_by_hand_is_brought_again(
    stub: Any, collection_id: str, shared: Path
) -> None:
    folder = shared / "by-hand"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nA text.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    await first_run(stub, collection_id, source_id)
    document = (await documents(stub, collection_id))["a.md"]
    await stub.DeleteDocument(
        pb.DeleteDocumentRequest(collection_id=collection_id, document_id=document.document_id),
        metadata=OWNER,
    )
    assert await run(stub, collection_id, source_id) == {"a.md": "CREATED"}


async def test_a_full_run_reads_what_has_not_changed_and_finds_it_unchanged(
    stub: Any, collection_id: str, shared: Path
) -> None:
    folder = shared / "full"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nA text.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    await first_run(stub, collection_id, source_id)
    assert await run(stub, collection_id, source_id, full=True) == {"a.md": "UNCHANGED"}


async def test_a_uri_belongs_to_the_source_that_brought_it_first(
    stub: Any, collection_id: str, shared: Path
) -> None:
    for name in ("first", "second"):
        (shared / name).mkdir()
        (shared / name / "a.md").write_text(f"# A\n\nThe text of the {name}.")
    first = await create(stub, collection_id, {"directory": {"path": str(shared / "first")}})
    await first_run(stub, collection_id, first)
    second = await create(
        stub, collection_id, {"name": "second", "directory": {"path": str(shared / "second")}}
    )
    assert await first_run(stub, collection_id, second) == {"a.md": "URI_OF_OTHER_SOURCE"}
    assert "first" in await text_of(stub, (await documents(stub, collection_id))["a.md"])


@pytest.mark.parametrize("delete_documents", [False, True])
async def test_a_deleted_source_leaves_its_documents_or_takes_them_along(
    stub: Any, collection_id: str, shared: Path, delete_documents: bool
) -> None:
    folder = shared / f"deleted-{delete_documents}"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nA text.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    await first_run(stub, collection_id, source_id)
    request = pb.DeleteSourceRequest(
        collection_id=collection_id, source_id=source_id, delete_documents=delete_documents
    )
    await stub.DeleteSource(request, metadata=OWNER)
    assert set(await documents(stub, collection_id)) == (set() if delete_documents else {"a.md"})
    assert (await refusal(get(stub, collection_id, source_id))).reason == "SOURCE_NOT_FOUND"
    listed = await stub.ListSources(pb.ListSourcesRequest(collection_id=collection_id), metadata=OWNER)
    assert not listed.sources


# --- web ---


async def test_a_web_site_is_followed(stub: Any, collection_id: str) -> None:
    with serving(Site()) as site:
        site.put("/", "Welcome to the handbook.", "/leave", "/travel")
        site.put("/leave", "Everybody has twenty-seven days of leave.")
        site.put("/travel", "Travel is by train.")
        source_id = await create(stub, collection_id, {"web": {"startUrl": site.url, "delaySeconds": 0}})
        assert len(await first_run(stub, collection_id, source_id)) == 3

        site.put("/", "Welcome to the new handbook.", "/leave", "/travel")
        del site.pages["/travel"]
        would_be = {f"{site.url}/": "UPDATED", f"{site.url}/travel": "DELETED"}
        assert await preview(stub, collection_id, source_id) == would_be
        assert await run(stub, collection_id, source_id) == {
            f"{site.url}/": "UPDATED",
            f"{site.url}/travel": "HTTP_STATUS",
        }
        assert set(await documents(stub, collection_id)) == {f"{site.url}/", f"{site.url}/leave"}
        # A page that fails may be the only one that leads to others.
        site.pages.clear()
        site.pages["/robots.txt"] = "User-agent: *\nDisallow: /"
        await run(stub, collection_id, source_id)
        assert set(await documents(stub, collection_id)) == {f"{site.url}/", f"{site.url}/leave"}


async def test_pages_of_a_site_that_have_not_changed_are_not_sent_again(
    pool: Pool, stub: Any, collection_id: str
) -> None:
    with serving(Site()) as site:
        site.has_etags = True
        site.put("/", "Welcome to the handbook.", "/leave", "/travel")
        site.put("/leave", "Everybody has twenty-seven days of leave.")
        site.put("/travel", "Travel is by train.")
        source_id = await create(stub, collection_id, {"web": {"startUrl": site.url, "delaySeconds": 0}})
        assert len(await first_run(stub, collection_id, source_id)) == 3

        site.put("/leave", "Everybody has thirty days of leave.")
        site.answered.clear()
        assert await run(stub, collection_id, source_id) == {f"{site.url}/leave": "UPDATED"}
        pages = {path: status for path, status in site.answered if path in site.pages}
        assert pages == {"/": 304, "/leave": 200, "/travel": 304}

        # What was deleted by hand comes again, and a full run asks for all of it.
        document = (await documents(stub, collection_id))[f"{site.url}/travel"]
        await stub.DeleteDocument(
            pb.DeleteDocumentRequest(collection_id=collection_id, document_id=document.document_id),
            metadata=OWNER,
        )
        assert await run(stub, collection_id, source_id) == {f"{site.url}/travel": "CREATED"}
        site.answered.clear()
        assert set((await run(stub, collection_id, source_id, full=True)).values()) == {"UNCHANGED"}
        assert 304 not in dict(site.answered).values()

        # What fails for now stays, and so do the pages to which it led.
        site.put("/", "Welcome to the new handbook.", "/leave")
        del site.pages["/travel"]
        site.statuses["/"] = 503
        outcomes = await run(stub, collection_id, source_id)
        assert outcomes == {f"{site.url}/": "HTTP_STATUS", f"{site.url}/travel": "HTTP_STATUS"}
        assert set(await documents(stub, collection_id)) == {f"{site.url}/", f"{site.url}/leave"}

        # A page that asks to be left out goes.
        site.statuses.clear()
        site.pages["/leave"] = "<html><head><meta name=robots content=noindex></head><p>Left out.</p></html>"
        await run(stub, collection_id, source_id)
        assert set(await documents(stub, collection_id)) == {f"{site.url}/"}
    async with acquire(pool) as connection:
        seen = await connection.fetch("SELECT url FROM seen_pages WHERE source_id = $1::uuid", source_id)
    assert {row["url"] for row in seen} == {f"{site.url}/", f"{site.url}/leave"}


# --- S3 ---


@pytest.fixture(scope="module")
def storage() -> Iterator[str]:
    """URL of a server with S3's API."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


async def test_a_bucket_is_followed(
    stub: Any, collection_id: str, storage: str, secrets: Path, tmp_path: Path
) -> None:
    (secrets / collection_id / "access").write_text("access\n")
    (secrets / collection_id / "secret").write_text("secret\n")
    client = Minio(urlsplit(storage).netloc, "access", "secret", secure=False, region="us-east-1")

    def put(key: str, text: str) -> None:
        (tmp_path / "object").write_text(text)
        client.fput_object("handbook", key, str(tmp_path / "object"), content_type="text/markdown")

    client.make_bucket("handbook")
    put("docs/leave.md", "# Leave\n\nTwenty-seven days.")
    put("docs/hr/pay.md", "# Pay\n\nAt the end of the month.")
    put("other/plan.md", "# Plan\n\nNot wanted.")
    source = {
        "s3": {
            "endpointUrl": storage,
            "bucket": "handbook",
            "prefix": "docs/",
            "accessKeySecret": "access",
            "secretKeySecret": "secret",
        }
    }
    source_id = await create(stub, collection_id, source)
    leave, pay = "s3://handbook/docs/leave.md", "s3://handbook/docs/hr/pay.md"
    assert await first_run(stub, collection_id, source_id) == {leave: "CREATED", pay: "CREATED"}
    assert await run(stub, collection_id, source_id) == {}
    put("docs/leave.md", "# Leave\n\nThirty days.")
    client.remove_object("handbook", "docs/hr/pay.md")
    assert await run(stub, collection_id, source_id) == {leave: "UPDATED"}
    found = await documents(stub, collection_id)
    assert set(found) == {leave}
    assert "Thirty" in await text_of(stub, found[leave])


async def test_a_bucket_that_there_is_not_fails_the_run(stub: Any, collection_id: str, storage: str) -> None:
    source_id = await create(
        stub, collection_id, {"s3": {"endpointUrl": storage, "bucket": "no-such-bucket"}}
    )
    assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}


BOMB = gzip.compress(bytes(64 * 1024**2))
"""64 KB that unpack to 64 MiB."""


def without_end(start: bytes, line: bytes) -> Iterator[bytes]:
    """Yield what a server says that is to be left before it comes to its end, at 64 MiB."""
    yield start
    for _ in range(1024):
        yield line * (65536 // len(line))


@contextmanager
def answering(parts: Callable[[], Iterator[bytes]], **headers: str) -> Iterator[str]:
    """Answer every request with the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            with suppress(ConnectionError):
                for part in parts():
                    self.wfile.write(part)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


async def why_it_failed(stub: Any, collection_id: str, source: dict[str, Any]) -> str:
    """Return the message of a run that its server's answers end."""
    source_id = await create(stub, collection_id, source)
    assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
    job = (await get(stub, collection_id, source_id)).last_job
    [item] = (await stub.GetJob(pb.GetJobRequest(job_id=job.job_id), metadata=OWNER)).items
    return str(item.failure.message)


@pytest.mark.parametrize(
    ("parts", "headers", "message"),
    [
        ([BOMB], {"content_encoding": "gzip"}, "has more than 16777216 bytes"),
        ([b"<p>Please sign in."], {"content_type": "text/html"}, "does not answer as a storage"),
    ],
)
async def test_a_bucket_that_answers_with_too_much_or_no_list_is_refused(
    stub: Any, collection_id: str, parts: list[bytes], headers: dict[str, str], message: str
) -> None:
    with answering(lambda: iter(parts), **headers) as url:
        source = {"s3": {"endpointUrl": url, "bucket": "handbook"}}
        assert message in await why_it_failed(stub, collection_id, source)


# --- git ---


async def test_a_repository_of_more_references_than_fit_is_refused(stub: Any, collection_id: str) -> None:
    service, line = b"# service=git-upload-pack\n", b" refs/heads/x".rjust(59, b"0")
    start = f"{len(service) + 4:04x}".encode() + service + b"0000"
    start += f"{len(line) + 9:04x}".encode() + line + b"\0a=b\n"
    lines = f"{len(line) + 5:04x}".encode() + line + b"\n"
    answer = partial(without_end, start, lines)
    with answering(answer, content_type="application/x-git-upload-pack-advertisement") as url:
        source = {"git": {"url": f"{url}/handbook"}}
        assert "references have more than" in await why_it_failed(stub, collection_id, source)


@pytest.fixture
def repositories(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """URL and folder of bare repositories, which git itself serves, to user:token alone."""
    top = tmp_path / "repositories"
    top.mkdir()
    expected = f"Basic {base64.b64encode(b'user:token').decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers["authorization"] != expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic")
                self.end_headers()
                return
            address = urlsplit(self.path)
            environment = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(top),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "PATH_INFO": address.path,
                "QUERY_STRING": address.query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("content-type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
                "HTTP_GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            }
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", top
    server.shutdown()
    server.server_close()
    thread.join()


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "Change")
    git(folder, "push", "origin", "HEAD:main")


async def test_a_git_repository_is_followed(
    stub: Any, collection_id: str, repositories: tuple[str, Path], secrets: Path, tmp_path: Path
) -> None:
    url, top = repositories
    (secrets / collection_id / "token").write_text("token\n")
    git(top, "init", "--bare", "handbook.git")
    work = tmp_path / "work"
    git(tmp_path, "clone", str(top / "handbook.git"), "work")
    (work / "docs").mkdir()
    (work / "docs" / "leave.md").write_text("# Leave\n\nTwenty-seven days.")
    (work / "docs" / "pay.md").write_text("# Pay\n\nAt the end of the month.")
    (work / "docs" / "link.md").symlink_to("pay.md")
    (work / "README.md").write_text("# Read me\n\nNot wanted.")
    commit(work)
    source = {
        "git": {
            "url": f"{url}/handbook.git",
            "path": "docs",
            "username": "user",
            "passwordSecret": "token",
        },
        "uriPrefix": "https://git.test/",
    }
    source_id = await create(stub, collection_id, source)
    leave, pay = "https://git.test/leave.md", "https://git.test/pay.md"
    assert await first_run(stub, collection_id, source_id) == {leave: "CREATED", pay: "CREATED"}
    assert await run(stub, collection_id, source_id) == {}
    (work / "docs" / "leave.md").write_text("# Leave\n\nThirty days.")
    (work / "docs" / "pay.md").unlink()
    commit(work)
    assert await run(stub, collection_id, source_id) == {leave: "UPDATED"}
    found = await documents(stub, collection_id)
    assert set(found) == {leave}
    assert "Thirty" in await text_of(stub, found[leave])

    (secrets / collection_id / "token").write_text("revoked")
    assert await run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
    assert set(await documents(stub, collection_id)) == {leave}


# --- PostgreSQL ---


@dataclass(frozen=True)
class Tickets:
    """A database with a table, and its URL."""

    url: str
    connection: "asyncpg.Connection[Any]"


@pytest.fixture
async def tickets(database_url: str) -> AsyncIterator[Tickets]:
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        """
        CREATE TABLE tickets (
            number integer PRIMARY KEY, subject text, body text, priority integer,
            changed timestamptz NOT NULL DEFAULT clock_timestamp()
        )
        """
    )
    await connection.execute(
        """
        INSERT INTO tickets VALUES
            (1, 'Printer', 'It prints {nothing}.', 2), (2, 'Coffee', 'It is out.', 1)
        """
    )
    async with over_tcp(database_url) as url:
        yield Tickets(url, connection)
    await connection.execute("DROP TABLE tickets")
    await connection.close()


@pytest.mark.parametrize("update_column", ["", "changed"])
async def test_the_rows_of_a_query_are_followed(
    stub: Any,
    collection_id: str,
    secrets: Path,
    tickets: Tickets,
    update_column: str,
) -> None:
    (secrets / collection_id / "tickets").write_text(f"{tickets.url}\n")
    source = {
        "postgres": {
            "urlSecret": "tickets",
            "query": "SELECT * FROM tickets -- all of them",
            "idColumn": "number",
            "updateColumn": update_column,
            "textTemplate": "{subject}: {body} {{as told}}",
            "titleColumn": "subject",
            "metadataColumns": ["priority"],
        },
        "uriPrefix": "https://tickets.test/",
    }
    source_id = await create(stub, collection_id, source)
    one, two, three = (f"https://tickets.test/{number}" for number in (1, 2, 3))
    assert await first_run(stub, collection_id, source_id) == {one: "CREATED", two: "CREATED"}
    found = await documents(stub, collection_id)
    assert (found[one].title, found[one].metadata["priority"]) == ("Printer", 2)
    assert await text_of(stub, found[one]) == "Printer: It prints {nothing}. {as told}"
    assert await run(stub, collection_id, source_id) == {}
    await tickets.connection.execute(
        """
        UPDATE tickets SET body = 'It prints.', changed = clock_timestamp() WHERE number = 1;
        DELETE FROM tickets WHERE number = 2;
        INSERT INTO tickets VALUES (3, 'Tea', 'Too cold.', 3)
        """
    )
    assert await run(stub, collection_id, source_id) == {one: "UPDATED", three: "CREATED"}
    assert set(await documents(stub, collection_id)) == {one, three}


async def test_a_query_may_only_read_and_tells_no_values(
    stub: Any, collection_id: str, secrets: Path, tickets: Tickets
) -> None:
    (secrets / collection_id / "tickets").write_text(tickets.url)
    queries = {
        "writing": "SELECT setval(pg_get_serial_sequence('x', 'y'), 1) AS id",
        "deleting": "WITH gone AS (DELETE FROM tickets RETURNING number AS id) SELECT * FROM gone",
        "two": "SELECT 1 AS id) q; DELETE FROM tickets; --",
        "failing": "SELECT number, subject::integer AS id FROM tickets",
    }
    for name, query in queries.items():
        source = {"name": name, "postgres": {"urlSecret": "tickets", "query": query, "idColumn": "id"}}
        source_id = await create(stub, collection_id, source)
        assert await first_run(stub, collection_id, source_id) == {name: "SOURCE_REFUSED"}
        job = (await get(stub, collection_id, source_id)).last_job
        [item] = (await stub.GetJob(pb.GetJobRequest(job_id=job.job_id), metadata=OWNER)).items
        assert "Printer" not in item.failure.message
    assert await tickets.connection.fetchval("SELECT count(*) FROM tickets") == 2


# --- feeds ---


@dataclass
class Feed:
    """A feed for user:token alone; `url` redirects to it. `asked`: the status of each of its answers."""

    content: str = ""
    asked: list[int] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def feed() -> Iterator[Feed]:
    served = Feed()
    expected = f"Basic {base64.b64encode(b'user:token').decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(301)
                self.send_header("Location", "/feed")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = gzip.compress(served.content.encode(), mtime=0)
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            if self.headers["authorization"] != expected:
                status, content = 401, b""
            elif self.headers["if-none-match"] == etag:
                status, content = 304, b""
            else:
                status = 200
            served.asked.append(status)
            self.send_response(status)
            self.send_header("ETag", etag)
            self.send_header("Content-Type", "application/rss+xml")
            self.send_header("Content-Encoding", "gzip")
            if status != 304:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}/moved"
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


def rss(*items: str) -> str:
    return f'<rss version="2.0"><channel><title>News</title>{"".join(items)}</channel></rss>'


def rss_item(link: str, title: str, text: str) -> str:
    return (
        f"<item><title>{title}</title><link>{link}</link><author>ann@example.com (Ann)</author>"
        f"<category>people</category><pubDate>Mon, 02 Nov 2026 10:00:00 +0100</pubDate>"
        f"<description>&lt;p&gt;{text}&lt;/p&gt;</description></item>"
    )


async def test_a_feed_is_followed_and_what_it_no_longer_shows_stays(
    stub: Any, collection_id: str, secrets: Path, feed: Feed
) -> None:
    (secrets / collection_id / "feed").write_text("token\n")
    leave, pay = "https://news.test/leave#today", "https://news.test/pay"
    feed.content = rss(
        rss_item(leave, "Leave", "Everybody has &lt;b&gt;twenty-seven&lt;/b&gt; days."),
        rss_item(pay, "Pay", "At the end of the month."),
        rss_item("https://news.test/ads/1", "Buy", "Not wanted."),
    )
    source = {
        "feed": {"url": feed.url, "username": "user", "passwordSecret": "feed"},
        "excludePaths": ["/ads/**"],
        "uriPrefix": "https://news.test/",
    }
    source_id = await create(stub, collection_id, source)
    assert await first_run(stub, collection_id, source_id) == {leave: "CREATED", pay: "CREATED"}
    document = (await documents(stub, collection_id))[leave]
    assert (document.title, json_format.MessageToDict(document.metadata)) == (
        "Leave",
        {"author": "ann@example.com (Ann)", "categories": ["people"], "published": "2026-11-02T09:00:00Z"},
    )
    assert await text_of(stub, document) == "# Leave\n\nEverybody has twenty-seven days."
    assert await run(stub, collection_id, source_id) == {}

    new = "https://news.test/travel"
    feed.content = rss(rss_item(leave, "Leave", "Thirty days."), rss_item(new, "Travel", "By train."))
    assert await run(stub, collection_id, source_id) == {leave: "UPDATED", new: "CREATED"}
    assert set(await documents(stub, collection_id)) == {leave, pay, new}
    assert feed.asked == [200, 304, 200]

    (secrets / collection_id / "feed").write_text("revoked")
    assert await run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}


async def test_a_feed_speaks_for_its_own_host_alone(
    stub: Any, collection_id: str, secrets: Path, feed: Feed
) -> None:
    (secrets / collection_id / "feed").write_text("token\n")
    own, foreign = feed.url.replace("moved", "leave"), "https://bank.test/account"
    feed.content = rss(rss_item(own, "Leave", "Thirty days."), rss_item(foreign, "Account", "Send it here."))
    source = {"feed": {"url": feed.url, "username": "user", "passwordSecret": "feed"}}
    source_id = await create(stub, collection_id, source)
    named = f"{feed.url}#{foreign}"
    assert await first_run(stub, collection_id, source_id) == {own: "CREATED", named: "CREATED"}
    assert (await documents(stub, collection_id))[named].metadata["link"] == foreign


async def test_a_source_neither_replaces_nor_deletes_what_was_handed_in(
    stub: Any, collection_id: str, shared: Path
) -> None:
    given = {"collectionId": collection_id, "documents": [{"uri": "a.md", "text": "Handed in."}]}
    answer = await stub.IngestDocuments(
        json_format.ParseDict(given, pb.IngestDocumentsRequest()), metadata=OWNER
    )
    await ended(stub, answer.job.job_id)
    folder = shared / "intruding"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text("Of the source.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    expected = {"a.md": "URI_OF_OTHER_SOURCE", "b.md": "CREATED"}
    assert await first_run(stub, collection_id, source_id) == expected
    (folder / "a.md").unlink()
    (folder / "b.md").unlink()
    await run(stub, collection_id, source_id)
    assert await text_of(stub, (await documents(stub, collection_id))["a.md"]) == "Handed in."


async def test_a_feed_brings_the_pages_that_it_links_to(
    stub: Any, collection_id: str, secrets: Path, feed: Feed
) -> None:
    (secrets / collection_id / "feed").write_text("token\n")
    with serving(Site()) as site:
        site.put("/leave", "Everybody has twenty-seven days of leave.")
        site.pages["/robots.txt"] = "User-agent: *\nDisallow: /secret"
        site.pages["/hidden"] = '<html><head><meta name="robots" content="noindex"></head>Hidden</html>'
        feed.content = rss(
            rss_item(f"{site.url}/leave", "Leave", "In short."),
            rss_item(f"{site.url}/hidden", "Hidden", "In short."),
            rss_item(f"{site.url}/gone", "Gone", "In short."),
            rss_item(f"{site.url}/secret", "Secret", "In short."),
        )
        source_id = await create(
            stub,
            collection_id,
            {
                "feed": {
                    "url": feed.url,
                    "username": "user",
                    "passwordSecret": "feed",
                    "linkedPages": True,
                }
            },
        )
        assert await first_run(stub, collection_id, source_id) == {
            f"{site.url}/leave": "CREATED",
            f"{site.url}/gone": "HTTP_STATUS",
            f"{site.url}/secret": "ROBOTS_DISALLOWED",
            f"{site.url}/hidden": "ROBOTS_DISALLOWED",
        }
        document = (await documents(stub, collection_id))[f"{site.url}/leave"]
        assert document.title == "Leave"
        assert "twenty-seven days of leave" in await text_of(stub, document)


async def test_a_page_that_is_no_feed_fails_the_run(stub: Any, collection_id: str) -> None:
    with serving(Site()) as site:
        site.put("/", "Welcome to the handbook.")
        source_id = await create(stub, collection_id, {"feed": {"url": site.url}})
        assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}


# --- mail ---


def mail(name: str, text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "Änne <ann@example.com>", "bob@example.com"
    message["Subject"], message["Message-ID"] = f"About {name}", f"<{name}@example.com>"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0100"
    message.set_content(text)
    return message


@pytest.fixture(scope="module")
def dovecot() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture
def mailbox(
    dovecot: MailServer, collection_id: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> MailServer:
    """An account without mails, whose server's certificate is trusted, and whose password is a secret."""
    dovecot.clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.certificate))
    (secrets / collection_id / "mail").write_text(f"{PASSWORD}\n")
    return dovecot


def imap(server: MailServer, **chosen: Any) -> dict[str, Any]:
    account = {"port": server.tls_port, "username": USER, "passwordSecret": "mail", **chosen}
    return {"imap": {"host": "localhost", **account}, "uriPrefix": "mid:"}


needs_dovecot = needs_program("dovecot-imapd", found=DOVECOT is not None)


@needs_dovecot
async def test_the_mails_of_an_account_are_followed(
    stub: Any, collection_id: str, mailbox: MailServer
) -> None:
    leave, pay, plan, tea = (f"mid:{name}@example.com" for name in ("leave", "pay", "plan", "tea"))
    with_table = mail("leave", "Everybody has twenty-seven days.")
    with_table.add_attachment("name,days\nBob,31\n", subtype="csv", filename="days.csv")
    mailbox.put("INBOX", with_table)
    mailbox.put("INBOX", mail("pay", "At the end of the month."))
    mailbox.put("Projects.Alpha", mail("plan", "First things first."))
    mailbox.put("Projects.Alpha", with_table)
    mailbox.put("Junk", mail("prize", "You have won."))
    source_id = await create(stub, collection_id, imap(mailbox))
    table = f"{leave}!/days.csv"
    created = dict.fromkeys((leave, table, pay, plan), "CREATED")
    assert await first_run(stub, collection_id, source_id) == created
    found = await documents(stub, collection_id)
    assert (found[leave].title, json_format.MessageToDict(found[leave].metadata)) == (
        "About leave",
        {
            "folder": "INBOX",
            "message_id": "<leave@example.com>",
            "from": "Änne <ann@example.com>",
            "to": "bob@example.com",
            "date": "2026-11-02T09:00:00Z",
        },
    )
    assert found[plan].metadata["folder"] == "Projects/Alpha"
    assert "twenty-seven" in await text_of(stub, found[leave])
    assert "Bob" in await text_of(stub, found[table])
    assert (found[table].container_uri, found[table].metadata) == (leave, found[leave].metadata)
    assert await run(stub, collection_id, source_id) == {}

    mailbox.delete("INBOX", "pay@example.com")
    mailbox.move("Projects.Alpha", "plan@example.com", "INBOX")
    mailbox.put("INBOX", mail("tea", "Too cold."))
    assert await run(stub, collection_id, source_id) == {plan: "UPDATED", tea: "CREATED"}
    found = await documents(stub, collection_id)
    assert set(found) == {leave, table, plan, tea}
    assert found[plan].metadata["folder"] == "INBOX"


@needs_dovecot
async def test_a_mail_folder_whose_uids_are_new_brings_nothing_twice(
    stub: Any, collection_id: str, mailbox: MailServer
) -> None:
    nameless = mail("unnamed", "It has no Message-ID.")
    del nameless["Message-ID"]
    mails = [mail("leave", "Everybody has twenty-seven days."), nameless]
    for one in mails:
        mailbox.put("Archive", one)
    source_id = await create(stub, collection_id, imap(mailbox))
    assert set((await first_run(stub, collection_id, source_id)).values()) == {"CREATED"}
    before = await documents(stub, collection_id)
    mailbox.renew("Archive")
    for one in reversed(mails):
        mailbox.put("Archive", one)
    assert await run(stub, collection_id, source_id) == {}
    assert await documents(stub, collection_id) == before


@needs_dovecot
async def test_folders_of_mail_are_chosen_by_patterns_and_read_after_starttls(
    stub: Any, collection_id: str, mailbox: MailServer
) -> None:
    for folder in ("INBOX", "Junk", "Projects.Alpha", "Projects.Alpha.Old"):
        mailbox.put(folder, mail(folder, "First things first."))
    source = imap(mailbox, port=mailbox.starttls_port, starttls=True)
    patterns = {"includePaths": ["Projects/**", "Junk"], "excludePaths": ["**/Old"]}
    source_id = await create(stub, collection_id, source | patterns)
    assert await first_run(stub, collection_id, source_id) == {
        "mid:Projects.Alpha@example.com": "CREATED",
        "mid:Junk@example.com": "CREATED",
    }


@needs_dovecot
async def test_a_mail_server_that_refuses_or_is_not_the_one_it_says_fails_the_run(
    stub: Any, collection_id: str, mailbox: MailServer, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (secrets / collection_id / "wrong").write_text("wrong")
    mailbox.put("INBOX", mail("leave", "Everybody has twenty-seven days."))
    wrong = await create(stub, collection_id, {"name": "wrong", **imap(mailbox, passwordSecret="wrong")})
    assert await first_run(stub, collection_id, wrong) == {"wrong": "SOURCE_REFUSED"}
    source_id = await create(stub, collection_id, imap(mailbox))
    await first_run(stub, collection_id, source_id)
    monkeypatch.delenv("SSL_CERT_FILE")
    assert await run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
    assert len(await documents(stub, collection_id)) == 1


async def test_a_mail_server_whose_answer_has_no_end_fails_the_run(
    stub: Any, collection_id: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (secrets / collection_id / "mail").write_text(PASSWORD)
    monkeypatch.setattr("groundline_collector.adapters.sources.imap.MAX_ANSWER_BYTES", 10_000)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK ready\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b"* OK still there\r\n")
                await writer.drain()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        account = {"host": "localhost", "port": port, "username": USER, "passwordSecret": "mail"}
        source_id = await create(stub, collection_id, {"imap": {**account, "starttls": True}})
        assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}


async def test_the_mails_of_mbox_files_are_followed(stub: Any, collection_id: str, shared: Path) -> None:
    folder = shared / "mail"
    (folder / "2026").mkdir(parents=True)
    leave, pay, plan, tea = (f"handbook/{name}@example.com" for name in ("leave", "pay", "plan", "tea"))

    def write(name: str, *mails: EmailMessage) -> None:
        parts = [b"From ann@example.com Mon Nov  2 10:00:00 2026\n" + one.as_bytes() + b"\n" for one in mails]
        (folder / name).write_bytes(b"".join(parts))

    first = mail("leave", "Dear all,\nFrom now on everybody has twenty-seven days.")
    second = mail("pay", "At the end of the month.")
    second.add_attachment("Month,Day\nMay,29\n", subtype="csv", filename="days.csv")
    second.add_attachment(b"\x7fELF", maintype="application", subtype="x-elf", filename="pay.exe")
    write("inbox", first, second)
    write("2026/november.mbox", mail("plan", "First things first."), first)
    (folder / "notes.txt").write_text("Not a mail.")
    source_id = await create(stub, collection_id, {"mbox": {"path": str(folder)}})
    created = dict.fromkeys((leave, pay, f"{pay}!/days.csv", plan), "CREATED")
    assert await first_run(stub, collection_id, source_id) == {
        **created,
        f"{pay}!/pay.exe": "UNSUPPORTED_TYPE",
    }
    found = await documents(stub, collection_id)
    assert set(found) == set(created), "an unreadable file must not become a document"
    assert "29" in await text_of(stub, found[f"{pay}!/days.csv"])
    assert found[leave].metadata["folder"] == "inbox"
    assert found[plan].metadata["folder"] == "2026/november.mbox"
    assert "From now on everybody" in await text_of(stub, found[leave])
    assert await run(stub, collection_id, source_id) == {}

    write("inbox", mail("tea", "Too cold."), first)
    assert await run(stub, collection_id, source_id) == {tea: "CREATED"}
    assert set(await documents(stub, collection_id)) == {leave, plan, tea}


async def test_a_dry_run_says_what_a_run_would_do_and_leaves_all_as_it_is(
    stub: Any, collection_id: str, shared: Path
) -> None:
    folder = shared / "previewed"
    folder.mkdir()
    leave, pay, tea = (f"handbook/{name}@example.com" for name in ("leave", "pay", "tea"))

    def write(*mails: EmailMessage) -> None:
        parts = [b"From ann@example.com Mon Nov  2 10:00:00 2026\n" + one.as_bytes() + b"\n" for one in mails]
        (folder / "inbox").write_bytes(b"".join(parts))

    request = pb.RunSourceRequest(
        collection_id=collection_id, source_id=str(uuid4()), dry_run=True, full=True
    )
    error = await refusal(stub.RunSource(request, metadata=OWNER))
    assert [violation.field for violation in error.violations] == ["dry_run"]
    write(mail("leave", "Everybody has twenty-seven days."), mail("pay", "At the end of the month."))
    source_id = await create(stub, collection_id, {"mbox": {"path": str(folder)}, "isPaused": True})
    assert await preview(stub, collection_id, source_id) == dict.fromkeys((leave, pay), "CREATED")
    assert await documents(stub, collection_id) == {}
    assert not (await get(stub, collection_id, source_id)).last_job.job_id
    assert await run(stub, collection_id, source_id) == dict.fromkeys((leave, pay), "CREATED")
    assert await preview(stub, collection_id, source_id) == {}

    write(mail("leave", "Everybody has thirty-one days, at last."), mail("tea", "Too cold."))
    before = await documents(stub, collection_id), (await get(stub, collection_id, source_id)).last_job.job_id
    changes = {leave: "UPDATED", tea: "CREATED"}
    for _ in range(2):
        assert await preview(stub, collection_id, source_id) == {**changes, pay: "DELETED"}
    last_job_id = (await get(stub, collection_id, source_id)).last_job.job_id
    assert (await documents(stub, collection_id), last_job_id) == before
    assert await run(stub, collection_id, source_id) == changes
    assert set(await documents(stub, collection_id)) == {leave, tea}


async def test_a_dry_run_of_a_source_that_is_deleted_is_cancelled(
    stub: Any, collection_id: str, shared: Path
) -> None:
    folder = shared / "never-read"
    folder.mkdir()
    (folder / "a.md").write_text("Hello.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}, "isPaused": True})
    request = pb.RunSourceRequest(collection_id=collection_id, source_id=source_id, dry_run=True)
    job = (await stub.RunSource(request, metadata=OWNER)).job
    deleting = pb.DeleteSourceRequest(collection_id=collection_id, source_id=source_id)
    await stub.DeleteSource(deleting, metadata=OWNER)
    await ended(stub, job.job_id)
    assert await documents(stub, collection_id) == {}


async def test_a_file_that_is_no_mbox_fails_the_run(stub: Any, collection_id: str, shared: Path) -> None:
    (shared / "letter.txt").write_text("Dear all")
    source_id = await create(stub, collection_id, {"mbox": {"path": str(shared / "letter.txt")}})
    assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}


async def test_a_restriction_of_the_source_reaches_a_document_whose_text_is_the_same(
    stub: Any, collection_id: str, secrets: Path
) -> None:
    (secrets / collection_id / "dav").write_text("hidden")
    dav, plan, path = WebdavServer(), "handbook/plan.txt", "/dav/handbook/plan.txt"
    dav.files[path] = b"First things first.", ""
    with serving_webdav(dav) as url:
        wrong = {"plugin": {"kind": "webdav", "settings": {"url": url, "depth": 1}}}
        refused = await refusal(create(stub, collection_id, wrong))
        assert [one.field for one in refused.violations] == ["source.plugin.settings.depth"]
        settings = {"url": url, "username": "ann", "password_secret": "dav"}
        source = {"plugin": {"kind": "webdav", "settings": settings}, "allowedPrincipals": ["user:ann"]}
        source_id = await create(stub, collection_id, source)
        assert set((await first_run(stub, collection_id, source_id)).values()) == {"CREATED"}
        found = await documents(stub, collection_id)
        assert {tuple(one.allowed_principals) for one in found.values()} == {("user:ann",)}
        dav.files[path] = b"First things first.", GRANT
        assert await preview(stub, collection_id, source_id) == {plan: "UPDATED"}
        assert list((await run(stub, collection_id, source_id)).items()) == [(plan, "UPDATED")]
        assert await update_refused(stub, collection_id, source_id, wrong) == ["plugin.settings.depth"]
        # Ann is not of the staff.
        assert plan not in await documents(stub, collection_id)
        dav.files[path] = b"First things first.", DENY
        await run(stub, collection_id, source_id)
        assert (await get(stub, collection_id, source_id)).document_count == 1
