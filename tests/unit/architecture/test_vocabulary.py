"""One definition for each concept: no package defines again what the contract or another package defines."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor

ROOT = Path(__file__).resolve().parents[3]

LEAST_FIELDS = 3
"""Two fields of the same names say little."""

LEAST_FIELDS_WITHIN = 4
"""A class that has all fields of a message, and more, copies it if the message has that many."""


# Why these are not what their namesakes are. A line goes when its class does; none is added for a copy.
ALLOWED: Mapping[str, str] = {
    "groundline_cli.configuration.reading.DeclaredKey": "of a file, with what keeps two of a name apart",
    "groundline_gateway.keys.Key": "a row of the command's and the gateway's table",
    "groundline_gateway.auditing.entries.AuditEntry": "with its fields as they were hashed",
    "groundline_gateway.settings.ApiKey": "of the settings, with its text; the contract's never has it",
    "groundline_extraction.readers.common.LineEdges": "in the confined process that reads",
    "groundline_embedding.settings.EmbeddingSettings": "settings of a process, not of a collection",
    "groundline_filters.parsing.Problem": "of a filter, with its place; an answer's is the contract's",
    "groundline_ranking.ranking.Ranked": "in the process that ranks; only the reranker sends it",
}


@dataclass(frozen=True)
class Definition:
    """A class of a package or a message of the contract."""

    name: str
    where: str
    fields: frozenset[str]


def contract() -> list[Definition]:
    """Return every message and enum, nested ones too."""
    found: list[Definition] = []

    def add(message: Descriptor) -> None:
        if not message.GetOptions().map_entry:
            fields = frozenset(field.name for field in message.fields)
            found.append(Definition(message.name, message.full_name, fields))
        for nested in message.nested_types:
            add(nested)
        found.extend(Definition(enum.name, enum.full_name, frozenset()) for enum in message.enum_types)

    for path in sorted((ROOT / "protos/groundline/v1").glob("*.proto")):
        if path.name == "limits.proto":
            continue  # it describes the contract
        import_module(f"groundline.v1.{path.stem}_pb2")
        file = descriptor_pool.Default().FindFileByName(f"groundline/v1/{path.name}")
        for message in file.message_types_by_name.values():
            add(message)
        found.extend(
            Definition(enum.name, enum.full_name, frozenset()) for enum in file.enum_types_by_name.values()
        )
    return found


def classes_of(text: str, where: str) -> Iterator[Definition]:
    """Return the classes of a module without Protocols: a port is its user's own, though two use the same
    service.

    A private class (`_Query`) is a module's own, whatever others call theirs, but no copy of a message.
    """
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef) or "Protocol" in map(ast.unparse, node.bases):
            continue
        fields = frozenset(
            statement.target.id.strip("_")
            for statement in node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        )
        yield Definition(node.name, f"{where}.{node.name}", fields)


@cache
def classes_of_packages() -> Mapping[str, list[Definition]]:
    """Return the classes of each package, tools/ among them, without the contract's stubs."""
    found: dict[str, list[Definition]] = defaultdict(list)
    for pattern in (
        "libs/*/groundline_*",
        "services/*/groundline_*",
        "cli/groundline_*",
        "gateway/groundline_*",
        "tools",
    ):
        for package in sorted(ROOT.glob(pattern)):
            for module in sorted(package.glob("**/*.py")):
                if not module.stem.endswith(("_pb2", "_pb2_grpc")):
                    where = ".".join(module.relative_to(package.parent).with_suffix("").parts)
                    found[package.name].extend(classes_of(module.read_text(), where))
    return found


def second_definitions(
    messages: list[Definition], packages: Mapping[str, list[Definition]]
) -> dict[str, str]:
    """Return each class that the contract or another package defines as well, and where."""
    found: dict[str, str] = {}
    for package, classes in packages.items():
        others = [one for other, theirs in packages.items() if other != package for one in theirs]
        for one in classes:
            for other in messages:
                if one.name == other.name or _copies(one, other):
                    found[one.where] = other.where
            for other in others:
                if (one.name == other.name and not one.name.startswith("_")) or _same_fields(one, other):
                    found[one.where] = other.where
    return found


def _same_fields(one: Definition, other: Definition) -> bool:
    is_private = one.name.startswith("_") or other.name.startswith("_")
    return not is_private and len(one.fields) >= LEAST_FIELDS and one.fields == other.fields


def _copies(one: Definition, message: Definition) -> bool:
    if len(message.fields) >= LEAST_FIELDS_WITHIN:
        return one.fields >= message.fields
    return len(one.fields) >= LEAST_FIELDS and one.fields == message.fields


def test_no_package_defines_again_what_the_contract_or_another_package_defines() -> None:
    found = second_definitions(contract(), classes_of_packages())
    unexplained = {where: other for where, other in found.items() if where not in ALLOWED}
    assert unexplained == {}


def test_the_list_of_namesakes_only_shrinks() -> None:
    assert set(ALLOWED) <= set(second_definitions(contract(), classes_of_packages()))


MODULE = """
class Passage: ...

class Renamed:
    chunk_id: str
    _score: float
    rank: int
    more: str

class _Own:
    chunk_id: str
    score: float
    rank: int

class Passages(Protocol):
    async def passages(self) -> None: ...
"""


def test_a_copy_is_noticed_by_name_by_fields_and_in_another_package() -> None:
    (passage, renamed, own) = classes_of(MODULE, "module")
    message = Definition("Passage", "groundline.v1.Passage", frozenset({"chunk_id", "score", "rank", "more"}))
    within = Definition("Score", "groundline.v1.Score", frozenset({"chunk_id", "score", "rank", "other"}))
    assert second_definitions([message], {"one": [passage], "two": [renamed]}) == {
        "module.Passage": "groundline.v1.Passage",
        "module.Renamed": "groundline.v1.Passage",
    }
    assert second_definitions([within], {"one": [passage], "two": [renamed]}) == {}
    assert second_definitions([], {"one": [renamed], "two": [renamed]}) == {
        "module.Renamed": "module.Renamed"
    }
    assert second_definitions([within], {"one": [own], "two": [own]}) == {}
