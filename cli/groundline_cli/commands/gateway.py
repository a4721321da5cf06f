"""Shared parts of the commands that call a gateway or go to the database."""

import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final

import click
from click.core import ParameterSource

from groundline_cli.connection import (
    Connection,
    ConnectionSettingsError,
    database_of,
    find_connection,
)
from groundline_cli.errors import CommandFailedError
from groundline_cli.interrupts import run_interruptible
from groundline_cli.profiles import CONFIG_FILE

# Takes long to load, and the commands on the database do without it.
if TYPE_CHECKING:
    from groundline_client import AsyncClient, JsonObject

_GATEWAY_OPTIONS: Final = ("gateway", "api_key", "profile")


def with_gateway[**P, R](command: Callable[Concatenate[Connection, P], R]) -> Callable[P, R]:
    """Add --gateway, --api-key and --profile to a command, and pass the connection as its first argument."""

    @_gateway_options
    @functools.wraps(command)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        connection = _connection(options)
        return command(connection, *args, **options)

    return wrapper


def with_gateway_unless[**P, R](
    option: str,
) -> Callable[[Callable[Concatenate[Connection | None, P], R]], Callable[P, R]]:
    """Do as `with_gateway`; but if an option is given, pass None, so that the command needs no gateway."""

    def decorated(command: Callable[Concatenate[Connection | None, P], R]) -> Callable[P, R]:
        @_gateway_options
        @functools.wraps(command)
        def wrapper(*args: P.args, **options: P.kwargs) -> R:
            if options[option] is None:
                return command(_connection(options), *args, **options)
            for each in _GATEWAY_OPTIONS:
                del options[each]
            return command(None, *args, **options)

        return wrapper

    return decorated


def _gateway_options[C: Callable[..., Any]](command: C) -> C:
    for add in (
        click.option(
            "--profile",
            envvar="GROUNDLINE_PROFILE",
            show_envvar=True,
            metavar="NAME",
            help="Gateway and key of that name in the configuration file.",
        ),
        click.option(
            "--api-key",
            envvar="GROUNDLINE_API_KEY",
            show_envvar=True,
            metavar="KEY",
            help="Key to the gateway. The environment hides it from other users of this machine.",
        ),
        click.option(
            "--gateway",
            envvar="GROUNDLINE_GATEWAY_URL",
            show_envvar=True,
            metavar="URL",
            help="Address of the gateway. Default: the suite that runs from this directory.",
        ),
    ):
        command = add(command)
    return command


def gateway_of_database(api_key: str | None) -> Connection:
    """Return the connection to the gateway of the command under way, which is one `with_database`. Raises
    click.UsageError."""
    given = click.get_current_context().params
    return _connection({"gateway": given["gateway"], "api_key": api_key, "profile": given["profile"]})


def _connection(options: dict[str, Any]) -> Connection:
    """Return the connection that the options of the gateway say, and take them out."""
    gateway, api_key, name = (options.pop(each) for each in _GATEWAY_OPTIONS)
    source = click.get_current_context().get_parameter_source
    if source("profile") == ParameterSource.COMMANDLINE:
        # What is typed wins over the environment.
        gateway = gateway if source("gateway") == ParameterSource.COMMANDLINE else None
        api_key = api_key if source("api_key") == ParameterSource.COMMANDLINE else None
    try:
        return find_connection(
            gateway, api_key, directory=Path.cwd(), config_file=CONFIG_FILE, profile_name=name
        )
    except ConnectionSettingsError as error:
        raise click.UsageError(str(error)) from error


def run[T](connection: Connection, work: "Callable[[AsyncClient], Awaitable[T]]") -> T:
    """Return the result of `work` with a client; end the command on an error of the gateway."""
    from groundline_client import GatewayError

    async def session() -> T:
        async with connection.client() as client:
            return await work(client)

    try:
        return run_interruptible(session())
    except GatewayError as error:
        raise CommandFailedError(str(error)) from error


async def all_of[T](items: AsyncIterator[T]) -> list[T]:
    """Collect a paged list whole."""
    return [item async for item in items]


def json_object(_context: click.Context, _option: click.Parameter, value: str | None) -> "JsonObject | None":
    """Parse an option's text as a JSON object; for click's `callback`."""
    if value is None:
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.BadParameter("not a JSON object")
    return found


output_option = click.option(
    "--output",
    "-o",
    type=click.File("wb", lazy=True),
    default="-",
    metavar="FILE",
    help="File to write. Default: standard output.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one line.")

collections_option = click.option(
    "--collection",
    "collections",
    multiple=True,
    metavar="NAME",
    help="Collection to search; may be given several times. Default: all that the key may read.",
)


database_url_option = functools.partial(
    click.option,
    "--database-url",
    envvar=["GROUNDLINE_GATEWAY_DATABASE_URL", "GROUNDLINE_DATABASE_URL"],
    show_envvar=True,
    metavar="URL",
)


def with_database[**P, R](command: Callable[Concatenate[str, P], R]) -> Callable[P, R]:
    """Add --database-url, --gateway and --profile to a command, and pass the database's URL as its first
    argument: the one that is set, or the one behind the gateway which other commands would call."""

    @database_url_option(
        help="PostgreSQL. The environment hides its password from other users of this machine."
    )
    @click.option(
        "--gateway",
        envvar="GROUNDLINE_GATEWAY_URL",
        show_envvar=True,
        metavar="URL",
        help="Gateway whose database it is, if none is set; it must be the suite that runs from this "
        "directory.",
    )
    @click.option(
        "--profile",
        envvar="GROUNDLINE_PROFILE",
        show_envvar=True,
        metavar="NAME",
        help="The same, by name from the configuration file.",
    )
    @functools.wraps(command)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        url, gateway, name = (options.pop(each) for each in ("database_url", "gateway", "profile"))
        assert gateway is None or isinstance(gateway, str)
        assert name is None or isinstance(name, str)
        try:
            url = url or database_of(
                gateway, directory=Path.cwd(), config_file=CONFIG_FILE, profile_name=name
            )
        except ConnectionSettingsError as error:
            raise click.UsageError(str(error)) from error
        assert isinstance(url, str)
        return command(url, *args, **options)

    return wrapper
