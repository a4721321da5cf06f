"""groundline apply"""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from groundline_client import AsyncClient, GatewayError

from groundline_cli.commands.gateway import database_url_option, json_option, run, with_gateway
from groundline_cli.configuration.planning import Action, ConfigurationPlan, Prune, Step, plan
from groundline_cli.configuration.reading import (
    Configuration,
    ConfigurationError,
    read_configuration,
    schema_text,
)
from groundline_cli.connection import Connection, ConnectionSettingsError, database_of
from groundline_cli.errors import CommandFailedError
from groundline_cli.profiles import CONFIG_FILE
from groundline_cli.terminal import print_json, printable

if TYPE_CHECKING:
    from groundline_gateway.keys import KeyStore

_SIGNS = {Action.CREATE: ("+", "green"), Action.CHANGE: ("~", "yellow"), Action.DELETE: ("-", "red")}
_DONE = {Action.CREATE: "created", Action.CHANGE: "changed", Action.DELETE: "deleted"}

database_option = database_url_option(
    help="PostgreSQL of the gateway, which holds its keys; needed for keys alone. Default: of the suite that "
    "runs from this directory.",
)


def _print_schema(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        click.echo(schema_text(), nl=False)
        context.exit()


@click.command(short_help="Make collections, sources and keys what files say.")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
    metavar="FILE...",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option(
    "--check", is_flag=True, help="As --dry-run, with exit code 1 if anything would be done, for a pipeline."
)
@click.option(
    "--prune",
    multiple=True,
    type=click.Choice([one.value for one in Prune]),
    help="What goes where no file names it: settings return to their defaults; sources of named collections, "
    "collections with their documents, and keys are deleted. May be given several times.",
)
@click.option("--yes", is_flag=True, help="Do not ask before something is deleted.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of the files, for editors.",
)
@database_option
@json_option
@with_gateway
def apply(
    connection: Connection,
    paths: tuple[Path, ...],
    dry_run: bool,
    check: bool,
    prune: tuple[str, ...],
    yes: bool,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Make collections, their settings and sources, and API keys what each FILE says, in YAML or JSON; of a
    directory the files below it, - is standard input.

    \b
      collections:
        - collectionId: handbook
          settings:
            access: {readers: ["group:staff"]}
            chunking: {chunkSize: 1200}
          sources:
            - name: wiki
              git: {url: "https://git.example/wiki.git", passwordSecret: git-token}
              intervalSeconds: 3600
      keys:
        - name: portal
          principals: ["user:portal"]
          scopes: [chat, search]
          secretFile: portal.key

    It shows the plan, and then does it. What files do not name stays, unless --prune says otherwise; null
    puts a setting back to its default. Applying again does nothing. What somebody else has changed since the
    plan is not changed: the command ends there, and can be called again.

    Exit code 1: something was refused. Then nothing was done, unless the message says what.
    """
    try:
        configuration = read_configuration(paths, sys.stdin.read)
    except ConfigurationError as error:
        raise CommandFailedError(str(error)) from error
    wanted = frozenset(map(Prune, prune))

    async def work(client: AsyncClient) -> None:
        async with AsyncExitStack() as stack:
            made = await plan(client, configuration, wanted)
            if configuration.keys or Prune.KEYS in wanted:
                store = await stack.enter_async_context(key_store(connection, database_url))
                await _add_keys(made, store, configuration, wanted)
            if made.problems:
                raise CommandFailedError("\n".join(["nothing was done:", *made.problems]))
            if not as_json:
                _print(made)
            if not (dry_run or check):
                _confirm(made, yes=yes)
                await _take(made.steps, as_json=as_json)
            if as_json:
                _print_json(made)
            if check and made.steps:
                raise click.exceptions.Exit(1)

    run(connection, work)


@asynccontextmanager
async def key_store(connection: Connection, database_url: str | None) -> "AsyncIterator[KeyStore]":
    """Provide the keys of the gateway, in its database. Raises CommandFailedError."""
    try:
        from groundline_gateway.keys import SCHEMA, KeyStore

        from groundline_cli.commands.keys import pool_of
    except ModuleNotFoundError as error:
        raise CommandFailedError("keys need: pip install 'groundline-cli[up]'") from error
    try:
        url = database_url or database_of(connection.gateway, directory=Path.cwd(), config_file=CONFIG_FILE)
    except ConnectionSettingsError as error:
        raise CommandFailedError(str(error)) from error
    async with pool_of(url, SCHEMA) as pool:
        yield KeyStore(pool)


async def _add_keys(
    made: ConfigurationPlan, store: "KeyStore", configuration: Configuration, prune: frozenset[Prune]
) -> None:
    from groundline_cli.configuration.keys import plan_keys

    keys = await plan_keys(store, configuration.keys, prune)
    made.steps += keys.steps
    made.problems += keys.problems


def _print(made: ConfigurationPlan) -> None:
    for step in made.steps:
        sign, color = _SIGNS[step.action]
        note = f" ({step.note})" if step.note else ""
        click.echo(click.style(printable(f"{sign} {step.what}{note}"), fg=color))
        for difference in step.differences:
            shown = difference.shown(is_new=step.action is Action.CREATE)
            click.echo(printable(f"    {shown}".replace("\n", "\n    ")))
    counts = [f"{made.count(action)} to {action.value}" for action in Action if made.count(action)]
    click.echo(", ".join(counts) if counts else "everything is as the files say")


def _confirm(made: ConfigurationPlan, *, yes: bool) -> None:
    if made.count(Action.DELETE) and not yes:
        click.confirm(f"Do this, and delete {made.count(Action.DELETE)}?", abort=True, err=True)


async def _take(steps: Sequence[Step], *, as_json: bool) -> None:
    for number, step in enumerate(steps):
        try:
            await step.take()
        except (GatewayError, OSError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            raise CommandFailedError(
                f"{step.what}: {said}\n{number} of {len(steps)} steps were done; call the command again for "
                "the rest"
            ) from error
        if not as_json:
            click.echo(printable(f"{_DONE[step.action]} {step.what}"))


def _print_json(made: ConfigurationPlan) -> None:
    print_json(
        {
            "steps": [
                {
                    "action": step.action.value,
                    "what": step.what,
                    "differences": [asdict(one) for one in step.differences],
                }
                for step in made.steps
            ]
        }
    )
