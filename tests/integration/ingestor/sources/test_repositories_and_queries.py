"""Sources of git and of a database, with real repositories and tables."""

import base64
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_tests.http_server import Answering, listening
from groundline_tests.ingestor.sources import (
    OWNER,
    answering,
    create,
    documents,
    first_run,
    get,
    run,
    text_of,
    why_it_failed,
    without_end,
)
from groundline_tests.listening import over_tcp

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

    class Handler(Answering):
        def do_GET(self) -> None:  # noqa: N802
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
            done = subprocess.run(
                ["git", "http-backend"], input=self.given(), env=environment, capture_output=True, check=True
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

    with listening(Handler) as url:
        yield url, top


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
        "git": {"url": f"{url}/handbook.git", "path": "docs", "username": "user", "passwordSecret": "token"},
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
    stub: Any, collection_id: str, secrets: Path, tickets: Tickets, update_column: str
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
