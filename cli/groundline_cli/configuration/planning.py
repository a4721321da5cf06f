"""Plans: which steps make an installation what a configuration says.

The gateway tells by dry runs what each change would make of what is there, so that a plan knows every default
and refusal. A change is made only of what the plan has seen.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final

from groundline_client import ApiError, AsyncClient, JsonObject, to_json
from groundline_client.models import Collection, DocumentSource

from groundline_cli.configuration import SOURCE_KINDS
from groundline_cli.configuration.reading import Configuration, properties_of

_NOT_PRUNED: Final = ("access", "allowedPrincipals", "calibration", "embedding", "lexical", "originalReaders")
"""Settings that stay although no file names them: without them others could read what they may not, answers
would lose what was measured, and the index what it was built by."""


class Action(StrEnum):
    """Kind of a step."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


class Prune(StrEnum):
    """Kinds of things that are taken away where no file names them."""

    SETTINGS = "settings"
    SOURCES = "sources"
    COLLECTIONS = "collections"
    KEYS = "keys"


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that a step changes, by its path; None is one that is not set."""

    path: str
    before: Any
    after: Any

    def shown(self, *, is_new: bool) -> str:
        """Return a line for people; what is new has no value before."""
        before = "" if is_new else f"{_written(self.before)} → "
        return f"{self.path}: {before}{_written(self.after)}"


@dataclass(frozen=True, slots=True)
class Step:
    """A change, which `take` makes."""

    action: Action
    what: str
    """Kind and name, such as "collection handbook"."""
    take: Callable[[], Awaitable[None]]
    """Makes the change. Raises GatewayError."""
    differences: Sequence[Difference] = ()
    note: str = ""


@dataclass(slots=True)
class ConfigurationPlan:
    """Steps in their order, and what stands in the way of them."""

    steps: list[Step] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def count(self, action: Action) -> int:
        """Return the number of steps that do this."""
        return sum(step.action is action for step in self.steps)


async def plan(
    client: AsyncClient, configuration: Configuration, prune: frozenset[Prune]
) -> ConfigurationPlan:
    """Plan collections and their sources. What the gateway refuses is a problem of the plan; raises
    GatewayError when it cannot be reached."""
    planning = _Planning(client, prune)
    for declared in configuration.collections:
        await planning.collection(declared)
    if Prune.COLLECTIONS in prune:
        named = {declared["collectionId"] for declared in configuration.collections}
        await planning.rest_of_collections(named)
    return ConfigurationPlan([*planning.steps, *planning.deletions], planning.problems)


def described_collection(collection: Collection) -> JsonObject:
    """Return a collection as a file has it, without its sources."""
    settings = to_json(collection.settings, omit_defaults=True) if collection.settings else {}
    return {
        "collectionId": collection.collection_id,
        "name": collection.name,
        "settings": _given(settings, "CollectionSettings"),
    }


def described_source(source: DocumentSource) -> JsonObject:
    """Return a source as a file has it."""
    return _given(to_json(source, omit_defaults=True), "DocumentSource")


class _Planning:
    """A plan in the making."""

    def __init__(self, client: AsyncClient, prune: frozenset[Prune]) -> None:
        self._client = client
        self._prune = prune
        self.steps: list[Step] = []
        self.deletions: list[Step] = []
        self.problems: list[str] = []

    async def collection(self, declared: JsonObject) -> None:
        """Plan a collection with its sources."""
        collection_id = declared["collectionId"]
        what = f"collection {collection_id}"
        current = None
        with self._telling(what):
            current = await self._find(collection_id)
            if current is None:
                await self._create(declared, what)
            else:
                await self._change(current, declared, what)
        if "sources" in declared:
            with self._telling(f"sources of {collection_id}"):
                await self._sources(collection_id, declared["sources"], exists=current is not None)

    async def rest_of_collections(self, named: set[str]) -> None:
        """Plan the deletion of the collections that the caller administers and no file names."""
        async for collection in self._client.list_collections():
            collection_id = collection.collection_id
            if collection_id in named or not await self._administers(collection_id):
                continue

            async def take(collection_id: str = collection_id) -> None:
                await self._client.delete_collection(collection_id)

            note = f"with its {_counted(collection.document_count, 'document')}"
            self.deletions.append(Step(Action.DELETE, f"collection {collection_id}", take, note=note))

    async def _find(self, collection_id: str) -> Collection | None:
        try:
            return await self._client.get_collection(collection_id)
        except ApiError as error:
            if error.http_status == 404:
                return None
            raise

    async def _administers(self, collection_id: str) -> bool:
        try:
            await self._client.update_collection(collection_id, dry_run=True)
        except ApiError as error:
            if error.http_status in (403, 404):
                return False
            raise
        return True

    async def _create(self, declared: JsonObject, what: str) -> None:
        collection_id = declared["collectionId"]
        name, settings = declared.get("name", ""), _without_nulls(declared.get("settings") or {})

        async def create(*, dry_run: bool = False) -> Collection:
            return await self._client.create_collection(
                collection_id, name=name, settings=settings, dry_run=dry_run
            )

        async def take() -> None:
            await create()

        await create(dry_run=True)
        differences = _differences({}, {"name": name or collection_id, "settings": settings})
        self.steps.append(Step(Action.CREATE, what, take, differences))

    async def _change(self, current: Collection, declared: JsonObject, what: str) -> None:
        settings = declared.get("settings") or {}
        mask = ["name"] if "name" in declared else []
        mask += [f"settings.{path}" for path in _paths(settings, "CollectionSettings")]
        if Prune.SETTINGS in self._prune and "settings" in declared:
            groups = [name for name in properties_of("CollectionSettings") if name not in _NOT_PRUNED]
            whole = [f"settings.{name}" for name in groups]
            mask = [path for path in mask if ".".join(path.split(".")[:2]) not in whole] + whole
        if not mask:
            return

        update = partial(
            self._client.update_collection,
            current.collection_id,
            name=declared.get("name", ""),
            settings=_without_nulls(settings),
            update_mask=mask,
            etag=current.etag,
        )
        await self._add_change(what, current, update, described_collection)

    async def _sources(self, collection_id: str, declared: Sequence[JsonObject], *, exists: bool) -> None:
        existing = [one async for one in self._client.list_sources(collection_id)] if exists else []
        by_name = {source.name: source for source in existing}
        for given in declared:
            what = f"source {given['name']} of {collection_id}"
            with self._telling(what):
                current = by_name.pop(given["name"], None)
                if current is None:
                    await self._create_source(collection_id, given, what, exists=exists)
                else:
                    await self._change_source(current, given, what)
        if Prune.SOURCES in self._prune:
            self.deletions += [self._source_deletion(collection_id, source) for source in by_name.values()]

    async def _create_source(self, collection_id: str, given: JsonObject, what: str, *, exists: bool) -> None:
        described = _without_nulls(given)

        async def take() -> None:
            await self._client.create_source(collection_id, described)

        # Nobody can say more of a source whose collection does not exist.
        if exists:
            await self._client.create_source(collection_id, described, dry_run=True)
        self.steps.append(Step(Action.CREATE, what, take, _differences({}, described)))

    async def _change_source(self, current: DocumentSource, given: JsonObject, what: str) -> None:
        if Prune.SETTINGS in self._prune:
            kind = next(kind for kind in SOURCE_KINDS if given.get(kind) is not None)
            others = {*SOURCE_KINDS, *_NOT_PRUNED} - {kind, *given}
            mask = [name for name in properties_of("DocumentSource") if name not in others]
        else:
            mask = [name for name in given if name not in SOURCE_KINDS or given[name] is not None]

        update = partial(
            self._client.update_source,
            current.collection_id,
            current.source_id,
            _without_nulls(given),
            update_mask=mask,
            etag=current.etag,
        )
        await self._add_change(what, current, update, described_source)

    async def _add_change[T](
        self,
        what: str,
        current: T,
        update: Callable[..., Awaitable[T]],
        described: Callable[[T], JsonObject],
    ) -> None:
        """Plan an update, unless a dry run of it changes nothing."""

        async def take() -> None:
            await update()

        differences = _differences(described(current), described(await update(dry_run=True)))
        if differences:
            self.steps.append(Step(Action.CHANGE, what, take, differences))

    def _source_deletion(self, collection_id: str, source: DocumentSource) -> Step:
        async def take() -> None:
            await self._client.delete_source(collection_id, source.source_id)

        note = f"its {_counted(source.document_count, 'document')} stay"
        return Step(Action.DELETE, f"source {source.name} of {collection_id}", take, note=note)

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Make a refusal in between a problem of the plan."""
        try:
            yield
        except ApiError as error:
            wrong = [f"{one.field} {one.description}" for one in error.violations]
            self.problems.append(f"{what}: {'; '.join(wrong) or error.message}")


def _given(value: Mapping[str, Any], definition: str) -> JsonObject:
    """Return what a file gives of a message, without what the service sets."""
    given = {}
    for name, schema in properties_of(definition).items():
        if name in value:
            below = _message_of(schema)
            given[name] = _given(value[name], below) if below else value[name]
    return given


def _paths(value: Mapping[str, Any], definition: str) -> Iterator[str]:
    """Yield the path of each value of a message, down to single settings."""
    properties = properties_of(definition)
    for name, member in value.items():
        below = _message_of(properties[name])
        if isinstance(member, dict) and below:
            yield from (f"{name}.{path}" for path in _paths(member, below))
        else:
            yield name


def _message_of(schema: JsonObject) -> str:
    """Return the name of the message that a property is, "" for anything else."""
    name: str = next((one["$ref"] for one in schema.get("anyOf", [schema]) if "$ref" in one), "")
    name = name.removeprefix("#/$defs/")
    try:
        return name if name and properties_of(name) else ""
    except KeyError:
        return ""


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return value


def _differences(before: Any, after: Any, path: str = "") -> list[Difference]:
    """Return the differences of two values, by path in the order of names; lists are compared whole."""
    if isinstance(before, dict | None) and isinstance(after, dict | None) and (before or after):
        before, after = before or {}, after or {}
        found = []
        for name in {**before, **after}:
            below = f"{path}.{name}" if path else name
            found += _differences(before.get(name), after.get(name), below)
        return found
    return [] if before == after else [Difference(path, before, after)]


def _written(value: Any) -> str:
    if value is None:
        return "not set"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}" + ("" if count == 1 else "s")
