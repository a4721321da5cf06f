"""groundline keys"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import click
from groundline_database import Pool, SigningKeyStore, open_pool, require_schema
from groundline_gateway.keys import (
    SCHEMA,
    Key,
    KeyDatabaseSettings,
    KeyStore,
    expiry_problem,
    name_problem,
    principal_problem,
)
from groundline_gateway.scopes import Scope
from groundline_gateway.settings import MAX_PRINCIPALS
from groundline_runtime.errors import GroundlineError
from pydantic import SecretStr

from groundline_cli.commands.gateway import json_option, with_database
from groundline_cli.errors import CommandFailedError
from groundline_cli.interrupts import run_interruptible
from groundline_cli.moments import moment_of
from groundline_cli.terminal import print_columns, print_json, printable

_SIGNING: Final = {"coordinator": 5}
"""Version of the tables that hold the keys for evidence."""


@click.group(short_help="Create, list and revoke API keys.")
def keys() -> None:
    """Manage API keys to the gateway, in its database, and the key that evidence is signed with.

    A change takes effect within seconds, without a restart. Access to the database decides who may use these
    commands. It is named by GROUNDLINE_DATABASE_URL, or else belongs to the suite that runs from this
    directory.
    """


def _run[T](url: str, work: Callable[[KeyStore], Awaitable[T]]) -> T:
    return with_pool(url, SCHEMA, lambda pool: work(KeyStore(pool)))


def with_pool[T](url: str, schema: Mapping[str, int], work: Callable[[Pool], Awaitable[T]]) -> T:
    """Do work on the database of keys, whose tables are of these versions. Raises CommandFailedError."""

    async def session() -> T:
        async with pool_of(url, schema) as pool:
            return await work(pool)

    return run_interruptible(session())


@asynccontextmanager
async def pool_of(url: str, schema: Mapping[str, int]) -> AsyncIterator[Pool]:
    """Provide the database of keys, whose tables are of these versions. Raises CommandFailedError, also for
    what goes wrong in between."""
    try:
        async with open_pool(KeyDatabaseSettings(database_url=SecretStr(url))) as pool:
            await require_schema(pool, schema)
            yield pool
    except GroundlineError as error:
        raise CommandFailedError(error.message) from error


def _client(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if problem := name_problem(value):
        raise click.BadParameter(problem)
    return value


def _principals(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for principal in value:
        if problem := principal_problem(principal):
            raise click.BadParameter(f"{principal!r}: {problem}")
    if len(value) > MAX_PRINCIPALS:
        raise click.BadParameter(f"{MAX_PRINCIPALS} at most")
    return tuple(dict.fromkeys(value))


def _expiry(_context: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    found = moment_of(value)
    if found is None:
        raise click.BadParameter("a time such as 30m, 12h, 90d, or 2027-01-31")
    if problem := expiry_problem(found, datetime.now(UTC)):
        raise click.BadParameter(problem)
    return found


@keys.command()
@click.option(
    "--name",
    required=True,
    callback=_client,
    help="Owner of the key, in logs and limits; several keys may share it.",
)
@click.option(
    "--principal",
    "principals",
    multiple=True,
    required=True,
    callback=_principals,
    help="Principal that the key stands for, such as user:alice or group:staff; may be given several times.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="Scope of the key; may be given several times.",
)
@click.option(
    "--expires",
    "expire_time",
    callback=_expiry,
    metavar="WHEN",
    help="Time until the key expires, such as 90d or 12h, or a date. Default: never.",
)
@json_option
@with_database
def create(
    database_url: str,
    name: str,
    principals: tuple[str, ...],
    scopes: tuple[str, ...],
    expire_time: datetime | None,
    as_json: bool,
) -> None:
    """Make a key, and show it: it is stored nowhere, and cannot be shown again."""
    wanted = [scope for scope in Scope if scope in scopes]
    key = _run(database_url, lambda store: store.create(name, principals, wanted, expire_time))
    if as_json:
        print_json({"key": key.secret, **_described(key)})
        return
    click.echo(key.secret)
    click.echo(f"key {key.key_id} of {key.name}; it is shown this once", err=True)


@keys.command("rotate-signing")
@with_database
def rotate_signing(database_url: str) -> None:
    """Sign evidence with a new key from now on.

    The key before signs nothing more: its private half is deleted. Its public half stays among those that
    evidence is verified with.
    """
    from groundline_evidence import KeyPair

    key = KeyPair.new()
    values = (key.key_id, key.public_key, key.private_key)
    with_pool(database_url, _SIGNING, lambda pool: SigningKeyStore(pool).replace(*values))
    click.echo(f"evidence is signed with the key {key.key_id} from now on")


@keys.command("list")
@json_option
@with_database
def list_keys(database_url: str, as_json: bool) -> None:
    """List the keys, the newest first."""
    found = _run(database_url, lambda store: store.list_keys())
    if as_json:
        print_json({"keys": [_described(key) for key in found]})
        return
    print_columns(
        ("ID", "NAME", "STATE", "SCOPES", "PRINCIPALS", "CREATED", "EXPIRES", "LAST USED"),
        [
            (
                key.key_id,
                printable(key.name),
                key.state(datetime.now(UTC)),
                " ".join(key.scopes),
                printable(" ".join(key.principals)),
                _shown(key.create_time),
                _shown(key.expire_time),
                "" if key.last_use_time is None else _shown(key.last_use_time),
            )
            for key in found
        ],
    )


@keys.command()
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_database
def revoke(database_url: str, key: str, yes: bool) -> None:
    """Revoke KEY, an id, or every key of that name."""
    if not yes:
        click.confirm(f"Revoke {key}?", abort=True)
    revoked = _run(database_url, lambda store: store.revoke(key))
    if not revoked:
        raise CommandFailedError(f"there is no valid key with the id or name {key!r}")
    for each in revoked:
        click.echo(f"revoked key {each.key_id} of {each.name}")


def _described(key: Key) -> dict[str, object]:
    return {
        "keyId": key.key_id,
        "name": key.name,
        "state": key.state(datetime.now(UTC)),
        "scopes": list(key.scopes),
        "principals": list(key.principals),
        "createTime": key.create_time.isoformat(),
        "expireTime": key.expire_time and key.expire_time.isoformat(),
        "revokeTime": key.revoke_time and key.revoke_time.isoformat(),
        "lastUseTime": key.last_use_time and key.last_use_time.isoformat(),
    }


def _shown(time: datetime | None) -> str:
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"
