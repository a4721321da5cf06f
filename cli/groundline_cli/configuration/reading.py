"""Configuration files: reading, checking and putting them together."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml
from groundline_client import JsonObject
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from groundline_cli.configuration import SOURCE_KINDS

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_STANDARD_INPUT: Final = Path("-")


class ConfigurationError(Exception):
    """Files do not hold a configuration; each problem names its file and place."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """An API key that is to exist."""

    name: str
    principals: frozenset[str]
    scopes: frozenset[str]
    expire_time: datetime | None
    secret_file: Path | None = field(default=None, compare=False)
    """Path that it is written to when it is made."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Collections and keys of files, in the API's JSON."""

    collections: Sequence[JsonObject] = ()
    keys: Sequence[DeclaredKey] = ()


def schema_text() -> str:
    """Return the JSON Schema of a file."""
    return files(__package__).joinpath("schema.json").read_text("utf-8")


def properties_of(definition: str) -> JsonObject:
    """Return the properties of a message that the schema defines, such as "DocumentSource"."""
    found: JsonObject = _schema()["$defs"][definition]["properties"]
    return found


def read_configuration(paths: Sequence[Path], standard_input: Callable[[], str]) -> Configuration:
    """Read files of YAML or JSON, and those below directories by path; `-` is standard input.

    Raises ConfigurationError, which names every problem.
    """
    reading = _Reading()
    for path in paths:
        for file in _files(path, reading.problems):
            try:
                text = standard_input() if file == _STANDARD_INPUT else file.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reading.problems.append(f"{file}: {getattr(error, 'strerror', None) or 'is not UTF-8'}")
                continue
            reading.take(file, text)
    if reading.problems:
        raise ConfigurationError(reading.problems)
    return Configuration(reading.collections, reading.keys)


@dataclass(slots=True)
class _Reading:
    """A configuration in the making, and its problems so far."""

    collections: list[JsonObject] = field(default_factory=list)
    keys: list[DeclaredKey] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _named_in: dict[str, Path] = field(default_factory=dict)

    def take(self, file: Path, text: str) -> None:
        """Add what a file says."""
        try:
            documents = [one for one in yaml.load_all(text, _Loader) if one is not None]
        except yaml.YAMLError as error:
            self.problems.append(f"{file}: {' '.join(str(error).split())}")
            return
        if not documents:
            self.problems.append(f"{file}: is empty")
        for document in documents:
            wrong = [*_wrong(document)]
            self.problems += [f"{file}: {problem}" for problem in wrong]
            if not wrong:
                self._take_valid(file, document)

    def _take_valid(self, file: Path, document: JsonObject) -> None:
        for collection in document.get("collections", ()):
            collection_id = collection["collectionId"]
            self._once(file, f"the collection {collection_id}")
            for source in collection.get("sources", ()):
                self._once(file, f"the source {source['name']} of {collection_id}")
            self.collections.append(collection)
        for given in document.get("keys", ()):
            secret_file = file.parent / given["secretFile"] if "secretFile" in given else None
            key = DeclaredKey(
                given["name"],
                frozenset(given["principals"]),
                frozenset(given["scopes"]),
                _moment(given["expireTime"]) if "expireTime" in given else None,
                secret_file,
            )
            if key in self.keys:
                self.problems.append(f"{file}: the key {key.name} is named twice")
            if secret_file:
                self._once(file, f"the file of a key {secret_file}")
            self.keys.append(key)

    def _once(self, file: Path, what: str) -> None:
        if what in self._named_in:
            self.problems.append(f"{file}: {what} is named in {self._named_in[what]} already")
        else:
            self._named_in[what] = file


def _files(path: Path, problems: list[str]) -> Iterator[Path]:
    if path != _STANDARD_INPUT and path.is_dir():
        found = sorted(one for one in path.rglob("*") if one.suffix in _SUFFIXES and one.is_file())
        if not found:
            problems.append(f"{path}: holds no file that ends in {', '.join(_SUFFIXES)}")
        yield from found
    else:
        yield path


def _wrong(document: object) -> Iterator[str]:
    """Yield what is wrong with a document."""
    for error in _validator().iter_errors(document):
        for cause in _causes(error):
            yield f"{_place(cause)}{_message(cause)}"
    if not isinstance(document, dict):
        return
    for collection in _objects(document, "collections"):
        for source in _objects(collection, "sources"):
            given = [kind for kind in SOURCE_KINDS if source.get(kind) is not None]
            if len(given) != 1:
                yield (
                    f"source {source.get('name')} of {collection.get('collectionId')}: must have one of "
                    f"{', '.join(SOURCE_KINDS)}" + (f", and has {' and '.join(given)}" if given else "")
                )
    for key in _objects(document, "keys"):
        if isinstance(time := key.get("expireTime"), str) and _moment(time) is None:
            yield f"key {key.get('name')}: expireTime must be a time such as 2027-01-31T12:00:00Z"


def _causes(error: ValidationError) -> Iterator[ValidationError]:
    """Yield what is wrong with a value that may also be null, and anything else as it is."""
    if error.validator == "anyOf":
        for cause in error.context or ():
            if cause.schema_path[0] == 0:
                yield from _causes(cause)
    else:
        yield error


def _objects(document: JsonObject, name: str) -> Iterable[JsonObject]:
    listed = document.get(name)
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _place(error: ValidationError) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path]
    return f"{''.join(parts).removeprefix('.')}: " if parts else ""


def _message(error: ValidationError) -> str:
    # The value may be long, and is at that place.
    return error.message if len(error.message) <= 200 else f"fails {error.validator}: {error.validator_value}"


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@cache
def _schema() -> JsonObject:
    found: JsonObject = json.loads(schema_text())
    return found


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(_schema())


class _Loader(yaml.SafeLoader):
    """YAML as JSON has it: times and words such as "on" are texts, and no name stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping. Raises ConstructorError for a name that is given twice, or is not a text."""
        found = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True) if key.tag != "tag:yaml.org,2002:merge" else None
            if name is not None and (not isinstance(name, str) or name in found):
                raise yaml.constructor.ConstructorError(
                    None, None, f"{name!r} stands twice, or is not a text", key.start_mark
                )
            found.add(name)
        return super().construct_mapping(node, deep)


_TYPED_OTHERWISE: Final = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _TYPED_OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
