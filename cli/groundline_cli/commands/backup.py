"""groundline backup"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import asyncpg
import click
from groundline_runtime.errors import GroundlineError

from groundline_cli.backups.programs import OnProgress
from groundline_cli.backups.writing import back_up, write_erasures
from groundline_cli.commands.gateway import database_url_option, json_option
from groundline_cli.connection import ConnectionSettingsError, database_of
from groundline_cli.errors import CommandFailedError
from groundline_cli.interrupts import run_interruptible
from groundline_cli.profiles import CONFIG_FILE
from groundline_cli.stack.errors import StackError
from groundline_cli.terminal import print_json, printable

_PROGRESS_SECONDS: Final = 2.0

owner_url_option = database_url_option(
    envvar="GROUNDLINE_DATABASE_URL",
    help="PostgreSQL, as the role that owns the tables. The environment hides its password from other users "
    "of this machine.",
)


def own_database(url: str | None) -> str:
    """Return the database's URL: the one that is set, or the one of the suite that runs from this
    directory. Raises click.UsageError."""
    try:
        return url or database_of(None, directory=Path.cwd(), config_file=CONFIG_FILE)
    except ConnectionSettingsError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def ending_clearly(stopped: str) -> Iterator[None]:
    """Raise CommandFailedError for what the suite or its user stops; `stopped` says what that leaves."""
    try:
        yield
    except GroundlineError as error:
        raise CommandFailedError(error.message) from error
    except StackError as error:
        raise CommandFailedError(str(error)) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise CommandFailedError("the role lacks rights: take the one that owns the tables") from error
    except asyncpg.PostgresError as error:
        # Only its class is told: the text may quote rows.
        raise CommandFailedError(
            f"a statement failed ({type(error).__name__}): look at the server's log"
        ) from error
    except OSError as error:
        raise CommandFailedError(f"{error.filename or 'a file'}: {error.strerror}") from error
    except KeyboardInterrupt:
        raise CommandFailedError(f"stopped; {stopped}") from None


def showing() -> OnProgress:
    """Return a receiver of progress that prints on stderr, every two seconds at most."""
    shown = 0.0

    def show(line: str) -> None:
        nonlocal shown
        if time.monotonic() - shown >= _PROGRESS_SECONDS:
            shown = time.monotonic()
            click.echo(printable(line), err=True)

    return show


@click.command(short_help="Write a backup of the whole suite.")
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--only-erasures",
    is_flag=True,
    help="Write to the file TARGET just the list of what was deleted for good, which is small, for "
    "`groundline restore --erasures`. A file that exists is replaced.",
)
@json_option
@owner_url_option
def backup(target: Path, *, only_erasures: bool, as_json: bool, database_url: str | None) -> None:
    """Write a consistent backup of everything that the suite holds into the directory TARGET, while it runs.

    The directory gets its name when it is complete; it holds what pg_dump wrote, a manifest with checksums,
    and the list of what was deleted for good. It also holds the key that evidence is signed with: keep it as
    you keep the database. `groundline restore` brings it back.

    The database is named by GROUNDLINE_DATABASE_URL, or else belongs to the suite that runs from this
    directory. Searches and ingestion go on.
    """
    begun = time.monotonic()
    url = own_database(database_url)
    with ending_clearly("nothing was written"):
        if only_erasures:
            count = run_interruptible(write_erasures(url, target))
            report(as_json, {"erasures": count}, f"{target}: {count} erasures")
            return
        manifest = run_interruptible(back_up(url, target, showing()))
    size, seconds = sum(p.stat().st_size for p in target.rglob("*")), time.monotonic() - begun
    documents = sum(each["documents"] for each in manifest.collections.values())
    chunks = sum(each["chunks"] for each in manifest.collections.values())
    report(
        as_json,
        {
            "backup": str(target),
            "collections": len(manifest.collections),
            "documents": documents,
            "chunks": chunks,
            "bytes": size,
            "seconds": seconds,
        },
        f"{target}: {len(manifest.collections)} collections, {documents} documents, {chunks} chunks; "
        f"{size / 1e6:.0f} MB in {seconds:.0f} s",
    )


def report(as_json: bool, values: Mapping[str, object], text: str) -> None:
    """Print the outcome, as one line of JSON if that is wanted."""
    if as_json:
        print_json(values)
    else:
        click.echo(printable(text))
