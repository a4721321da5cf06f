"""Content from outside: every kind of file, bad files, a web site, and its deletion."""

import asyncio
import base64
import copy
import io
import json
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import docx
import httpx
import pypdf
import pytest
from groundline_tests.http_server import Answering, listening
from groundline_tests.suite import Stack, ended_job


def encrypted_pdf() -> bytes:
    writer = pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret", algorithm="AES-256")
    content = io.BytesIO()
    writer.write(content)
    return content.getvalue()


def zip_bomb() -> bytes:
    """Return a DOCX of 100 KB that unpacks to 1,200 MiB, since twelve entries share one member's bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
        archive.writestr("word/document.xml", bytes(100 * 1024**2))
        for number in range(11):
            twin = copy.copy(archive.getinfo("word/document.xml"))
            twin.filename = f"word/{number}.xml"
            archive.filelist.append(twin)
    return content.getvalue()


def letter() -> bytes:
    document = docx.Document()
    document.add_paragraph("The gribblefrost warranty lasts eleven years.")
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def data(content: bytes) -> dict[str, str]:
    return {"data": base64.b64encode(content).decode()}


BAD: Final[dict[str, tuple[dict[str, str], str]]] = {
    "encrypted.pdf": (data(encrypted_pdf()), "ENCRYPTED_DOCUMENT"),
    "corrupt.pdf": (data(b"%PDF-1.7\nnothing of it is right"), "CORRUPT_DOCUMENT"),
    "encoding.txt": (
        {**data("Größe".encode("latin-1")), "mimeType": "text/plain; charset=utf-8"},
        "INVALID_ENCODING",
    ),
    "empty.txt": (data(b""), "EMPTY_TEXT"),
    "blank.md": ({"text": " \n"}, "EMPTY_TEXT"),
    "bomb.docx": (data(zip_bomb()), "DOCUMENT_TOO_LARGE"),
    "nul.txt": ({"text": "before\0after"}, "INVALID_TEXT"),
    "program": (data(b"\x7fELF\0\0\0"), "UNSUPPORTED_TYPE"),
    "broken.json": ({"text": "{", "mimeType": "application/json"}, "INVALID_JSON"),
}


@pytest.fixture
async def bad(client: httpx.AsyncClient) -> AsyncIterator[str]:
    """A collection of the test's own."""
    await client.post("/api/collections", json={"collectionId": "bad"})
    yield "/api/collections/bad/documents"
    await client.delete("/api/collections/bad")


async def test_bad_files_fail_with_a_reason_and_others_go_on(client: httpx.AsyncClient, bad: str) -> None:
    outside = "../../../../etc/passwd"
    good = {outside: {"text": "A flummery of names."}, "letter.docx": data(letter())}
    contents = {name: content for name, (content, _) in BAD.items()} | good
    documents = [{"uri": uri, **content} for uri, content in contents.items()]
    answer = await client.post(bad, json={"documents": documents})
    assert answer.status_code == 200, answer.text
    job = await ended_job(client, answer.json()["job"]["jobId"])

    assert (job["state"], job["doneCount"], job["failedCount"]) == ("JOB_STATE_DONE", 2, len(BAD))
    items = (await client.get(f"/api/jobs/{job['jobId']}?pageSize=100")).json()["items"]
    reasons = {item["uri"]: (item.get("failure") or {}).get("reason") for item in items}
    assert reasons == {name: reason for name, (_, reason) in BAD.items()} | dict.fromkeys(good)
    listed = (await client.get(bad)).json()["documents"]
    assert {document["uri"] for document in listed} == set(contents)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"uri": "a\0b", "text": "x"}, "documents[0].uri"),
        ({"uri": "a"}, "documents[0]"),
        ({"uri": "a", "text": "x", "metadata": {"key\0": 1}}, "documents[0].metadata.key\0"),
    ],
)
async def test_what_cannot_even_be_named_is_a_400_with_the_field(
    client: httpx.AsyncClient, bad: str, document: dict[str, Any], field: str
) -> None:
    answer = await client.post(bad, json={"documents": [document]})
    assert answer.status_code == 400
    details = {detail["@type"].rpartition(".")[2]: detail for detail in answer.json()["details"]}
    assert [violation["field"] for violation in details["BadRequest"]["fieldViolations"]] == [field]


async def test_data_that_is_no_base64_is_a_400(client: httpx.AsyncClient, bad: str) -> None:
    answer = await client.post(bad, json={"documents": [{"uri": "a", "data": "not base64!"}]})
    assert answer.status_code == 400


async def test_300_megabytes_are_a_413_with_the_reason(stack: Stack, bad: str) -> None:
    gateway = httpx.URL(stack.ready["gateway"])
    reader, writer = await asyncio.open_connection(gateway.host, gateway.port)
    begin = b'{"documents": [{"uri": "huge.txt", "text": "'
    head = (
        f"POST {bad} HTTP/1.1\r\nhost: {gateway.host}\r\nx-api-key: {stack.ready['api_key']}\r\n"
        f"content-type: application/json\r\ncontent-length: {300 << 20}\r\n\r\n"
    )
    sent = 0

    async def upload() -> None:
        nonlocal sent
        writer.write(head.encode() + begin)
        with suppress(ConnectionError):  # it is refused while it is being sent
            for _ in range(300):
                writer.write(b"x" * (1 << 20))
                await writer.drain()
                sent += 1

    # As browsers and curl do: the answer is read while the request is sent.
    sending = asyncio.create_task(upload())
    async with asyncio.timeout(60):
        headers = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(headers.lower().partition("content-length: ")[2].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    writer.close()
    assert headers.startswith("HTTP/1.1 413 ")
    assert body["details"][0]["reason"] == "BODY_TOO_LARGE"
    assert sent < 300


async def test_a_request_id_that_comes_again_gets_its_first_job(client: httpx.AsyncClient, bad: str) -> None:
    body = {"documents": [{"uri": "a", "text": "x"}], "requestId": "again"}
    jobs = [(await client.post(bad, json=body)).json()["job"]["jobId"] for _ in range(2)]
    assert jobs[0] == jobs[1]


async def test_the_command_brings_in_every_kind_of_file(stack: Stack, tmp_path: Path) -> None:
    root = tmp_path / "mixed"
    root.mkdir()
    (root / "letter.docx").write_bytes(letter())
    (root / "page.html").write_text(
        "<html><body><article><h1>Prices</h1><p>A wobbleknock costs twelve euros, whatever its colour, and "
        "comes with a lid that fits.</p></article></body></html>"
    )
    (root / "parts.csv").write_text("part,price\nsnarkbolt,3\nsnarknut,4\n")
    (root / "records.json").write_text(
        json.dumps([{"type": "object", "properties": {"uuid": "r-1", "name": "blivet ring"}}])
    )
    (root / "code.py").write_text("def frobnicate_widget() -> None:\n    pass\n")
    (root / "program").write_bytes(b"\x7fELF\0")
    (root / "broken.pdf").write_bytes(b"not a PDF")
    done = await stack.command("ingest", str(root), "--collection", "mixed-kinds")
    try:
        assert done.code == 4, done.err
        assert "5 new" in done.out
        assert "1 failed, 1 skipped (1 unsupported type)" in done.out
        assert "broken.pdf: the content is not application/pdf" in done.err
        for query, uri in (
            ("gribblefrost", "letter.docx"),
            ("wobbleknock", "page.html"),
            ("snarknut", "parts.csv"),
            ("blivet", "r-1"),
            ("frobnicate widget", "code.py"),
        ):
            found = await stack.command("search", query, "--collection", "mixed-kinds", "--json")
            assert json.loads(found.out)["passages"][0]["chunk"]["uri"] == uri
        condition = '{"$source_type": "object"}'
        counted = await stack.command("delete", "mixed-kinds", "--filter", condition, "--dry-run")
        assert counted.out == "1 document of mixed-kinds would be deleted\n"
        deleted = await stack.command("delete", "mixed-kinds", "--filter", condition, "--yes")
        assert deleted.out == "deleted 1 document of mixed-kinds\n"
        for mode in ("keyword", "semantic"):
            found = await stack.command(
                "search", "blivet ring", "--collection", "mixed-kinds", "--mode", mode, "--json"
            )
            assert "r-1" not in {one["chunk"]["uri"] for one in json.loads(found.out).get("passages", [])}
        refused = await stack.command("delete", "mixed-kinds", "--filter", "{}", "--yes")
        assert refused.code == 1
        assert "holds for every document" in refused.err
    finally:
        await stack.command("delete", "mixed-kinds", "--yes")


PAGES: Final = {
    "/": "<h1>Start</h1><p>All about the plonkmeter, which measures plonk.</p><a href='/use'>use</a> "
    "<a href='/gone'>gone</a>",
    "/use": "<h1>Use</h1><p>Turn the plonkmeter by ninety degrees until it clicks.</p>",
}


@pytest.fixture
def site() -> Iterator[str]:
    class Handler(Answering, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = PAGES.get(self.path)
            content = f"<html><body><article>{body}</article></body></html>".encode()
            self.answer(200 if body else 404, content, {"Content-Type": "text/html"})

    with listening(Handler) as url:
        yield url


async def test_the_command_finds_a_crawled_site(stack: Stack, client: httpx.AsyncClient, site: str) -> None:
    refused = await stack.command("crawl", site, "--collection", "site", "--delay", "0")
    assert refused.code == 1
    assert "is not a public address" in refused.err
    settings = {"settings": {"crawl": {"allowPrivateAddresses": True}}}
    assert (await client.patch("/api/collections/site", json=settings)).status_code == 200
    done = await stack.command("crawl", site, "--collection", "site", "--delay", "0")
    again = await stack.command("crawl", site, "--collection", "site", "--delay", "0", "--exclude", "/gone")
    found = await stack.command("search", "plonkmeter degrees", "--collection", "site", "--json")
    await stack.command("delete", "site", "--yes")

    assert done.code == again.code == 0, done.err + again.err
    assert done.out == "site: 2 new, 0 changed, 0 unchanged, 1 failed; 2 chunks stored\n"
    assert again.out == "site: 0 new, 0 changed, 2 unchanged; 0 chunks stored\n"
    best = json.loads(found.out)["passages"][0]["chunk"]
    assert (best["uri"], best["sourceType"], best["title"]) == (f"{site}/use", "SOURCE_TYPE_WEB", "Use")
