"""Make the JSON Schema of the files that `groundline apply` takes, from the OpenAPI document.

configuration_schema.py write    write it
configuration_schema.py check    fail when it is stale
"""

import json
import re
import sys
from typing import Any, Final

from generated import write_or_check
from groundline_gateway.scopes import Scope
from groundline_gateway.settings import CLIENT_PATTERN, PRINCIPAL_PATTERN
from openapi import DOCUMENT
from project import ROOT

type Json = dict[str, Any]

SCHEMA: Final = ROOT / "cli/groundline_cli/configuration/schema.json"
"""File in the command's package, which prints it; docs/reference has a link to it."""

REFERENCE: Final = re.compile(r"#/components/schemas/(\w+)")
SET_BY_SERVICE: Final = {
    "DocumentSource": {
        "sourceId",
        "collectionId",
        "createTime",
        "nextRunTime",
        "lastJob",
        "documentCount",
        "etag",
    },
    "EmbeddingSettings": {"dimensions"},
}
"""Fields that no file gives."""

KEY: Final[Json] = {
    "type": "object",
    "description": "An API key. It cannot be changed: of another it is a new one.",
    "properties": {
        "name": {
            "type": "string",
            "pattern": CLIENT_PATTERN,
            "description": "Owner of the key, in logs and limits.",
        },
        "principals": {
            "type": "array",
            "items": {"type": "string", "pattern": PRINCIPAL_PATTERN},
            "minItems": 1,
            "maxItems": 64,
            "uniqueItems": True,
            "description": 'Principals that the key stands for, such as "user:alice" or "group:staff".',
        },
        "scopes": {
            "type": "array",
            "items": {"enum": [scope.value for scope in Scope]},
            "minItems": 1,
            "uniqueItems": True,
            "description": "Scopes of the key.",
        },
        "expireTime": {
            "type": "string",
            "format": "date-time",
            "description": "Time from which it is not valid, such as 2027-01-31 or 2027-01-31T12:00:00Z. "
            "Default: none.",
        },
        "secretFile": {
            "type": "string",
            "minLength": 1,
            "description": "File that a key is written to when it is made, beside the file that names it; "
            "nobody but its owner may read it, and none that exists is written over.",
        },
    },
    "required": ["name", "principals", "scopes"],
    "additionalProperties": False,
}


def schema() -> Json:
    """Return the schema of a whole file."""
    components = json.loads(DOCUMENT.read_text(encoding="utf-8"))["components"]["schemas"]
    definitions: dict[str, Json] = {}
    for name in ("CollectionSettings", "DocumentSource"):
        _take(name, components, definitions)
    for name in _groups("CollectionSettings", definitions):
        _allow_null(definitions[name])
    _allow_null(definitions["DocumentSource"])
    collection: Json = {
        "type": "object",
        "description": "A collection. What is not named stays as it is.",
        "properties": {
            "collectionId": {
                "type": "string",
                "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$",
                "description": "Identifier.",
            },
            "name": {"type": "string", "maxLength": 200, "description": "Name for people."},
            "settings": {"$ref": "#/$defs/CollectionSettings"},
            "sources": {
                "type": "array",
                "items": {"$ref": "#/$defs/DocumentSource"},
                "description": "Sources that it follows, each with a name of its own.",
            },
        },
        "required": ["collectionId"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of Groundline",
        "description": "What `groundline apply` makes so. A setting that is null returns to its default.",
        "type": "object",
        "properties": {
            "collections": {"type": "array", "items": {"$ref": "#/$defs/Collection"}},
            "keys": {"type": "array", "items": {"$ref": "#/$defs/Key"}},
        },
        "additionalProperties": False,
        "$defs": {"Collection": collection, "Key": KEY, **dict(sorted(definitions.items()))},
    }


def _take(name: str, components: Json, definitions: dict[str, Json]) -> None:
    """Copy a schema and what it refers to, without what the service sets."""
    if name in definitions:
        return
    text = REFERENCE.sub(r"#/$defs/\1", json.dumps(components[name]))
    definitions[name] = json.loads(text)
    for given in SET_BY_SERVICE.get(name, ()):
        del definitions[name]["properties"][given]
    # The rule that a source has one kind: the command tells it in fewer words than a validator does.
    definitions[name].pop("oneOf", None)
    for below in re.findall(r'#/\$defs/(\w+)"', json.dumps(definitions[name])):
        _take(below, components, definitions)


def _groups(name: str, definitions: dict[str, Json]) -> list[str]:
    """Return the names of the settings' messages: this one, and those that are members of it."""
    found = [name]
    for member in definitions[name].get("properties", {}).values():
        below = member.get("$ref", "").removeprefix("#/$defs/")
        if below and "properties" in definitions[below]:
            found += _groups(below, definitions)
    return found


def _allow_null(message: Json) -> None:
    for name, member in message["properties"].items():
        if name not in message.get("required", ()):
            described = {"description": member.pop("description")} if "description" in member else {}
            message["properties"][name] = {**described, "anyOf": [member, {"type": "null"}]}


def main() -> int:
    text = json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
    return write_or_check(sys.argv[1:], {SCHEMA: text}, "make generate", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
