"""Sources of any kind: what is refused, when they run, what changes them."""

from email.message import EmailMessage
from pathlib import Path
from typing import Any
from uuid import uuid4

from google.protobuf import json_format
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_tests.ingestor.site import Site, serving
from groundline_tests.ingestor.sources import (
    OWNER,
    STRANGER,
    create,
    documents,
    ended,
    first_run,
    followed,
    get,
    job_after,
    mail,
    preview,
    run,
    text_of,
)
from groundline_tests.runtime import refusal


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


async def test_another_collections_secret_is_refused(stub: Any, collection_id: str, secrets: Path) -> None:
    (secrets / "other").mkdir()
    (secrets / "other" / "database").write_text("postgresql://localhost/x")
    query = {"urlSecret": "database", "query": "SELECT 1 AS id", "idColumn": "id"}
    error = await refusal(create(stub, collection_id, {"postgres": query}))
    assert error.reason == "SOURCE_NOT_AVAILABLE"


async def test_only_administrators_may_have_sources(stub: Any, collection_id: str, shared: Path) -> None:
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


async def test_a_source_runs_again_by_itself(pool: Pool, stub: Any, collection_id: str, folder: Path) -> None:
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
    stub: Any, collection_id: str, folder: Path
) -> None:
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


async def test_a_new_interval_counts_from_now(stub: Any, collection_id: str, folder: Path) -> None:
    source_id = await followed(stub, collection_id, folder, "a.md")
    job = (await get(stub, collection_id, source_id)).last_job
    changed = await update(stub, collection_id, source_id, intervalSeconds=7200, name="renamed")
    assert changed.name == "renamed"
    assert 0.8 < (changed.next_run_time.seconds - job.create_time.seconds) / 7200 < 1.3
    assert changed.last_job.job_id == job.job_id
    assert await run(stub, collection_id, source_id) == {}
    cleared = await update(stub, collection_id, source_id, updateMask="intervalSeconds")
    assert not cleared.HasField("interval_seconds")
    assert not cleared.HasField("next_run_time")


async def test_what_a_source_reads_anew_is_read_whole(stub: Any, collection_id: str, folder: Path) -> None:
    source_id = await followed(stub, collection_id, folder, "a.md", "b.md")
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


async def test_a_run_at_work_ends_when_its_maker_may_no_longer_write(stub: Any, collection_id: str) -> None:
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
    pool: Pool, stub: Any, collection_id: str, folder: Path
) -> None:
    await administered_by(stub, collection_id, "ann", "bob")
    source_id = await create(
        stub, collection_id, {"directory": {"path": str(folder)}, "intervalSeconds": 3600}, STRANGER
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


async def test_a_source_leaves_alone_what_was_handed_in(stub: Any, collection_id: str, folder: Path) -> None:
    given = {"collectionId": collection_id, "documents": [{"uri": "a.md", "text": "Handed in."}]}
    answer = await stub.IngestDocuments(
        json_format.ParseDict(given, pb.IngestDocumentsRequest()), metadata=OWNER
    )
    await ended(stub, answer.job.job_id)
    for name in ("a.md", "b.md"):
        (folder / name).write_text("Of the source.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}})
    expected = {"a.md": "URI_OF_OTHER_SOURCE", "b.md": "CREATED"}
    assert await first_run(stub, collection_id, source_id) == expected
    (folder / "a.md").unlink()
    (folder / "b.md").unlink()
    await run(stub, collection_id, source_id)
    assert await text_of(stub, (await documents(stub, collection_id))["a.md"]) == "Handed in."


async def test_a_dry_run_says_what_a_run_would_do(stub: Any, collection_id: str, folder: Path) -> None:
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


async def test_a_deleted_sources_dry_run_is_cancelled(stub: Any, collection_id: str, folder: Path) -> None:
    (folder / "a.md").write_text("Hello.")
    source_id = await create(stub, collection_id, {"directory": {"path": str(folder)}, "isPaused": True})
    request = pb.RunSourceRequest(collection_id=collection_id, source_id=source_id, dry_run=True)
    job = (await stub.RunSource(request, metadata=OWNER)).job
    deleting = pb.DeleteSourceRequest(collection_id=collection_id, source_id=source_id)
    await stub.DeleteSource(deleting, metadata=OWNER)
    await ended(stub, job.job_id)
    assert await documents(stub, collection_id) == {}


async def test_a_dry_run_tells_what_a_source_would_be(stub: Any, collection_id: str, shared: Path) -> None:
    (shared / "planned").mkdir()
    source = {"name": "planned", "directory": {"path": str(shared / "planned")}, "isPaused": True}

    async def planned(**changed: Any) -> Any:
        request = {"collectionId": collection_id, "source": {**source, **changed}, "dryRun": True}
        made = json_format.ParseDict(request, pb.CreateSourceRequest())
        return (await stub.CreateSource(made, metadata=OWNER)).source

    found = await planned()
    assert (found.name, found.source_id, found.etag != "") == ("planned", "", True)
    assert (await refusal(planned(directory={"path": "/etc"}))).reason == "SOURCE_NOT_AVAILABLE"
    source_id = await create(stub, collection_id, source)
    before = await get(stub, collection_id, source_id)
    assert before.etag == found.etag
    assert (await refusal(planned())).reason == "SOURCE_NAME_TAKEN"
    other = await create(stub, collection_id, {**source, "name": "other"})
    changed = await update(stub, collection_id, source_id, includePaths=["**.md"], dryRun=True)
    assert list(changed.include_paths) == ["**.md"]
    assert await get(stub, collection_id, source_id) == before
    renamed = update(stub, collection_id, other, name="planned", dryRun=True)
    assert (await refusal(renamed)).reason == "SOURCE_NAME_TAKEN"


async def test_a_change_of_another_state_is_refused(stub: Any, collection_id: str, shared: Path) -> None:
    (shared / "tagged").mkdir()
    source = {"name": "tagged", "directory": {"path": str(shared / "tagged")}, "isPaused": True}
    source_id = await create(stub, collection_id, source)
    before = await get(stub, collection_id, source_id)
    after = await update(stub, collection_id, source_id, intervalSeconds=600, etag=before.etag)
    late = update(stub, collection_id, source_id, includePaths=["**.md"], etag=before.etag)
    assert (await refusal(late)).reason == "SOURCE_CHANGED"
    found = await update(stub, collection_id, source_id, includePaths=["**.md"], etag=after.etag)
    assert (found.interval_seconds, list(found.include_paths)) == (600, ["**.md"])
