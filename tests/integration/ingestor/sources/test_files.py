"""Sources of files: directories, WebDAV and buckets, with real servers."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from google.protobuf import json_format
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_tests.ingestor.sources import (
    OWNER,
    answering,
    create,
    documents,
    first_run,
    followed,
    get,
    preview,
    run,
    text_of,
    why_it_failed,
)
from groundline_tests.ingestor.webdav import DENY, GRANT, WebdavServer, serving_webdav
from groundline_tests.runtime import refusal
from minio import Minio
from moto.server import ThreadedMotoServer


async def update_refused(stub: Any, collection_id: str, source_id: str, change: dict[str, Any]) -> list[str]:
    """Return the fields for which a change is refused."""
    request = {"collectionId": collection_id, "sourceId": source_id, **change}
    update = json_format.ParseDict(request, pb.UpdateSourceRequest())
    return [one.field for one in (await refusal(stub.UpdateSource(update, metadata=OWNER))).violations]


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


async def test_a_directory_that_is_gone_deletes_nothing(stub: Any, collection_id: str, folder: Path) -> None:
    source_id = await followed(stub, collection_id, folder, "a.md")
    folder.rename(folder.with_name("elsewhere"))  # noqa: ASYNC240
    assert await run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
    assert set(await documents(stub, collection_id)) == {"a.md"}


async def test_a_document_deleted_by_hand_comes_again(stub: Any, collection_id: str, folder: Path) -> None:
    source_id = await followed(stub, collection_id, folder, "a.md")
    document = (await documents(stub, collection_id))["a.md"]
    await stub.DeleteDocument(
        pb.DeleteDocumentRequest(collection_id=collection_id, document_id=document.document_id),
        metadata=OWNER,
    )
    assert await run(stub, collection_id, source_id) == {"a.md": "CREATED"}


async def test_a_run_leaves_a_document_that_is_held_and_one_taken_back_leaves_what_it_deleted(
    stub: Any, collection_id: str, folder: Path
) -> None:
    source_id = await followed(stub, collection_id, folder, "a.md", "b.md", "c.md")
    held = (await documents(stub, collection_id))["a.md"].document_id
    hold = pb.SetLegalHoldRequest(collection_id=collection_id, document_ids=[held], reason="case 7")
    await stub.SetLegalHold(hold, metadata=OWNER)

    for name in "ab":
        (folder / f"{name}.md").unlink()
    (folder / "d.md").write_text("# d\n\nThe text of d.")
    assert await run(stub, collection_id, source_id) == {"d.md": "CREATED"}
    after = await get(stub, collection_id, source_id)
    assert after.last_job.deleted_count == 1
    assert set(await documents(stub, collection_id)) == {"a.md", "c.md", "d.md"}
    assert await run(stub, collection_id, source_id) == {}

    reverted = await stub.RevertJob(pb.RevertJobRequest(job_id=after.last_job.job_id), metadata=OWNER)
    assert {each.uri: each.action for each in reverted.documents} == {"d.md": pb.REVERT_ACTION_DELETE}
    assert set(await documents(stub, collection_id)) == {"a.md", "c.md"}
    hold.reason = ""
    await stub.SetLegalHold(hold, metadata=OWNER)


async def test_a_full_run_reads_what_has_not_changed(stub: Any, collection_id: str, folder: Path) -> None:
    source_id = await followed(stub, collection_id, folder, "a.md")
    assert await run(stub, collection_id, source_id, full=True) == {"a.md": "UNCHANGED"}


async def test_a_uri_belongs_to_the_source_it_came_by(stub: Any, collection_id: str, shared: Path) -> None:
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
    stub: Any, collection_id: str, folder: Path, delete_documents: bool
) -> None:
    source_id = await followed(stub, collection_id, folder, "a.md")
    request = pb.DeleteSourceRequest(
        collection_id=collection_id, source_id=source_id, delete_documents=delete_documents
    )
    await stub.DeleteSource(request, metadata=OWNER)
    assert set(await documents(stub, collection_id)) == (set() if delete_documents else {"a.md"})
    assert (await refusal(get(stub, collection_id, source_id))).reason == "SOURCE_NOT_FOUND"
    listed = await stub.ListSources(pb.ListSourcesRequest(collection_id=collection_id), metadata=OWNER)
    assert not listed.sources


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
