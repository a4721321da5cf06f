"""PostgreSQL's own programs for dumps, and what they are doing."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from groundline_database import Pool

from groundline_cli.errors import CommandFailedError
from groundline_cli.stack.postgres import binaries

type OnProgress = Callable[[str], None]
"""Receiver of one line about what is being done."""

_LOOK_SECONDS: Final = 2.0

_TABLE: Final = re.compile(r'^pg_\w+: (?:dumping contents of|processing data for) table "(?:public\.)?(.+)"')
_CREATING: Final = re.compile(r'^pg_restore: creating (?:INDEX|CONSTRAINT|FK CONSTRAINT) "(?:public\.)?(.+)"')
_COPIED: Final = """
    SELECT max(tuples_processed) AS rows FROM pg_stat_progress_copy JOIN pg_stat_activity USING (pid)
    WHERE pg_stat_activity.datname = current_database() AND application_name IN ('pg_dump', 'pg_restore')
"""
_ERROR: Final = re.compile(r"^\w+: (?:error|fatal): (.*)")


def without_password(url: str) -> tuple[str, Mapping[str, str]]:
    """Return a database's URL without its password, which arguments would show to other users of the machine,
    and the environment variable that holds it."""
    parts = urlsplit(url)
    user, at, location = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    query = dict(parse_qsl(parts.query))
    password = unquote(password) or query.pop("password", "")
    shown = parts._replace(netloc=f"{name}{at}{location}", query=urlencode(query, safe="/")).geturl()
    return shown, {"PGPASSWORD": password} if password else {}


async def run(
    program: str, *arguments: str, url: str | None = None, on_line: Callable[[str], None] | None = None
) -> str:
    """Run a program of PostgreSQL to its end, on a database if one is given; return its output. `on_line`
    receives what it says.

    The program is stopped when the caller is cancelled. Raises CommandFailedError with the program's errors,
    without the details that may quote rows.
    """
    shown, secret = without_password(url) if url else ("", {})
    process = await asyncio.create_subprocess_exec(
        str(binaries() / program),
        *arguments,
        *([f"--dbname={shown}"] if url else []),
        env={**os.environ, **secret, "LC_ALL": "C"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C reaches a terminal's whole foreground group; this process ends the program itself.
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = []
    reading = asyncio.create_task(process.stdout.read())
    try:
        async for raw in process.stderr:
            line = raw.decode(errors="replace").rstrip()
            if found := _ERROR.match(line):
                errors.append(found[1])
            elif on_line is not None:
                on_line(line)
        output = await reading
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
        reading.cancel()
    if code != 0:
        raise CommandFailedError(f"{program} failed: {'; '.join(errors) or f'exit code {code}'}")
    return output.decode()


async def run_watched(
    pool: Pool, program: str, *arguments: str, url: str, rows: Mapping[str, int], on_progress: OnProgress
) -> None:
    """Run pg_dump or pg_restore as `run` does, and tell how far each table is, by its number of rows."""
    table = ""

    def note(line: str) -> None:
        nonlocal table
        if found := _TABLE.match(line):
            table = found[1]
        elif found := _CREATING.match(line):
            table = ""
            on_progress(f"building {found[1]}")

    async def look() -> None:
        [copied] = await pool.probe.fetch(_COPIED)
        if table and rows.get(table):
            on_progress(f"copying {table}: {(copied['rows'] or 0) / rows[table]:.0%} of {rows[table]} rows")

    await watched(run(program, "--verbose", *arguments, url=url, on_line=note), look)


async def watched(work: Awaitable[object], look: Callable[[], Awaitable[None]]) -> None:
    """Wait for work, and look at it every two seconds. It is cancelled with the caller."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=_LOOK_SECONDS))[0]:
            await look()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
