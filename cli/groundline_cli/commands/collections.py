"""groundline collections, create and update"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click
from groundline_client import JsonObject, to_json
from groundline_client.models import Collection

from groundline_cli.commands.gateway import all_of, json_object, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json

_SHOWN: Final = ("collectionId", "name", "documentCount", "chunkCount", "createTime", "updateTime")
_STRATEGIES: Final = ("recursive", "sections", "words", "sentences", "parent_child")
_UNITS: Final = ("characters", "tokens")
_MODES: Final = ("none", "structural", "llm")

LANGUAGE: Final = click.option(
    "--language",
    help="Language of stemming and stop words, such as german; simple for none. A new collection gets an "
    "embedding model that knows it.",
)
CUTTING: Final = (
    click.option("--chunking", type=click.Choice(_STRATEGIES), help="How documents are cut into chunks."),
    click.option("--chunk-size", type=int, help="Maximum units in a chunk."),
    click.option("--chunk-overlap", type=int, help="Units that a chunk shares with the one before."),
    click.option("--parent-size", type=int, help="Maximum units in a parent, with --chunking parent_child."),
    click.option("--chunk-unit", type=click.Choice(_UNITS), help="What these sizes count."),
    click.option(
        "--contextualization",
        type=click.Choice(_MODES),
        help="Where the text that places a chunk in its document comes from.",
    ),
)
_NAMED: Final = (
    click.option("--name", help="Name for people."),
    click.option(
        "--reader",
        "readers",
        multiple=True,
        metavar="PRINCIPAL",
        help="Who may search and read, such as group:staff, or * for everyone; may be given several times. "
        "Default: you.",
    ),
    click.option(
        "--writer",
        "writers",
        multiple=True,
        metavar="PRINCIPAL",
        help="Who may bring documents in and delete them. Default: you.",
    ),
    click.option(
        "--admin",
        "admins",
        multiple=True,
        metavar="PRINCIPAL",
        help="Who may change its settings and access, and delete it. Default: you.",
    ),
    click.option(
        "--keep-originals/--no-keep-originals",
        default=None,
        help="Whether documents are kept as they were handed in, to open them from citations.",
    ),
    click.option(
        "--settings",
        metavar="JSON",
        callback=json_object,
        help='Further settings, as in CollectionSettings: \'{"generation": {"temperature": 0.2}}\'.',
    ),
)

type _Options = Mapping[str, Any]


def with_options[**P, R](*options: Callable[[Callable[..., R]], Callable[..., R]]) -> Callable[..., Any]:
    """Decorate a command with options that several share."""

    def decorate(command: Callable[P, R]) -> Callable[..., R]:
        decorated: Callable[..., R] = command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


@click.command(short_help="List the collections, or show the settings of one.")
@click.argument("collection", required=False)
@json_option
@with_gateway
def collections(connection: Connection, collection: str | None, as_json: bool) -> None:
    """List the collections that the key may read, or show the settings of COLLECTION."""
    if collection is not None:
        _show(run(connection, lambda client: client.get_collection(collection)), as_json)
        return

    found = run(connection, lambda client: all_of(client.list_collections()))
    if as_json:
        print_json({"collections": [to_json(one) for one in found]})
        return
    rows = [(c.collection_id, c.document_count, c.chunk_count, c.name) for c in found]
    print_columns(("COLLECTION", "DOCUMENTS", "CHUNKS", "NAME"), rows)


@click.command(short_help="Create a collection.")
@click.argument("collection")
@with_options(LANGUAGE, *CUTTING, *_NAMED)
@json_option
@with_gateway
def create(connection: Connection, /, collection: str, as_json: bool, **options: Any) -> None:
    """Create COLLECTION, empty; `ingest` does so too, with every setting at its default.

    COLLECTION has lower-case letters, digits, "_" and "-".
    """
    made = run(
        connection,
        lambda client: client.create_collection(
            collection, name=options["name"] or "", settings=settings_of(options)
        ),
    )
    _show(made, as_json)


@click.command(short_help="Change a collection's name and settings.")
@click.argument("collection")
@with_options(*CUTTING, *_NAMED)
@click.option(
    "--unset",
    multiple=True,
    metavar="PATH",
    help="Put a setting back to its default, such as access.readers; may be given several times.",
)
@json_option
@with_gateway
def update(
    connection: Connection, /, collection: str, unset: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Change the name and settings of COLLECTION; what is not given stays as it is.

    Chunking and contextualization apply to what is ingested from then on; `reindex` applies them to
    everything, and is the way to another language or embedding model.
    """
    settings = settings_of(options)
    name = options["name"]
    if unset and (settings or name is not None):
        raise click.UsageError("--unset cannot be combined with other changes: they would be unset with it")
    if not unset and not settings and name is None:
        raise click.UsageError("give at least one setting to change")
    mask = [f"settings.{path}" for path in unset]
    changed = run(
        connection,
        lambda client: client.update_collection(
            collection, name=name or "", settings=settings, update_mask=mask
        ),
    )
    _show(changed, as_json)


def settings_of(options: _Options) -> JsonObject:
    """Return the CollectionSettings that the options give."""
    fields = {
        "embedding": {"model": options.get("model")},
        "lexical": {"language": options.get("language")},
        "chunking": {
            "strategy": _enum("CHUNKING_STRATEGY", options["chunking"]),
            "chunkSize": options["chunk_size"],
            "chunkOverlap": options["chunk_overlap"],
            "parentSize": options["parent_size"],
            "unit": _enum("CHUNK_SIZE_UNIT", options["chunk_unit"]),
        },
        "contextualization": {"mode": _enum("CONTEXTUALIZATION_MODE", options["contextualization"])},
        "access": {
            "readers": list(options.get("readers", ())) or None,
            "writers": list(options.get("writers", ())) or None,
            "admins": list(options.get("admins", ())) or None,
        },
    }
    settings: JsonObject = dict(options.get("settings") or {})
    for group, values in fields.items():
        given = {name: value for name, value in values.items() if value is not None}
        if given:
            settings[group] = {**settings.get(group, {}), **given}
    if options.get("keep_originals") is not None:
        settings["keepOriginals"] = options["keep_originals"]
    return settings


def _enum(prefix: str, value: str | None) -> str | None:
    return value and f"{prefix}_{value.upper()}"


def _show(collection: Collection, as_json: bool) -> None:
    shown = to_json(collection)
    if as_json:
        print_json({"collection": shown})
        return
    rows = [(name, shown[name]) for name in _SHOWN if name in shown]
    print_columns(("", "VALUE"), [*rows, *_leaves(shown.get("settings", {}), "")])


def _leaves(settings: JsonObject, prefix: str) -> Iterator[tuple[str, object]]:
    """Yield the path of each setting, as --unset takes it, and its value."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str | int | float) else json.dumps(value)
