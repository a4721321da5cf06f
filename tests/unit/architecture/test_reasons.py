"""Every error reason that the code uses is in the contract's enum ErrorReason, and each of these is used."""

import ast
import re
from collections.abc import Iterator, Set
from functools import cache
from importlib import import_module
from pathlib import Path

from google.protobuf import descriptor_pool
from groundline.v1 import error_pb2
from groundline_runtime.errors import Code

ROOT = Path(__file__).resolve().parents[3]
REASONS = frozenset(error_pb2.ErrorReason.keys()) - {"ERROR_REASON_UNSPECIFIED"}

UPPER_SNAKE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
IN_SQL = re.compile(r"'([A-Z][A-Z0-9_]+)'")

# Upper-case strings of others: of Envoy's configuration, gRPC's health, libraries, programs, the prompt.
NOT_REASONS = frozenset(
    {
        "CLUSTER_PROVIDED",
        "GRPC_EXPERIMENTS",
        "LC_ALL",
        "LEAST_REQUEST",
        "MIN_EXTRACTED_SIZE",
        "NOT_SERVING",
        "NO_ANSWER",
        "OMP_THREAD_LIMIT",
        "OPENBLAS_NUM_THREADS",
        "OVERWRITE_IF_EXISTS_OR_ADD",
        "ROUND_ROBIN",
        "STRICT_DNS",
    }
)


def modules() -> Iterator[Path]:
    for folder in ("services/*", "libs/*", "gateway"):
        for path in sorted(ROOT.glob(f"{folder}/groundline*/**/*.py")):
            if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
                yield path


@cache
def strings_of(text: str) -> Set[str]:
    """Return the texts of a module, except names of its own, as in `__all__`."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names.update(node.asname or node.name for node in nodes if isinstance(node, ast.alias))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts - names


def attributes_of(text: str) -> Iterator[str]:
    """Return the attributes that a module takes from the enum itself: `error_pb2.RATE_LIMITED`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            last = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if last.endswith(("error_pb2", "ErrorReason")):
                yield node.attr


def enum_values() -> Iterator[str]:
    """Return the names of all values of the contract's enums."""

    for path in sorted((ROOT / "protos/groundline/v1").glob("*.proto")):
        import_module(f"groundline.v1.{path.stem}_pb2")
        file = descriptor_pool.Default().FindFileByName(f"groundline/v1/{path.name}")
        for enum in file.enum_types_by_name.values():
            yield from enum.values_by_name
        for message in file.message_types_by_name.values():
            for enum in message.enum_types:
                yield from enum.values_by_name


def test_every_reason_in_the_code_is_in_the_contract() -> None:
    known = {*enum_values(), *NOT_REASONS}
    unknown = {
        f"{path.relative_to(ROOT)}: {text}"
        for path in modules()
        for text in strings_of(path.read_text())
        if UPPER_SNAKE.fullmatch(text) and text not in known and not text.startswith("GROUNDLINE_")
    }
    assert unknown == set()


def test_every_reason_of_the_contract_is_used() -> None:
    used: set[str] = set()
    for path in modules():
        text = path.read_text()
        used.update(attributes_of(text))
        for string in strings_of(text):
            used.add(string)
            used.update(IN_SQL.findall(string))
    # Errors of calls without a reason of their own have the name of their status code.
    used.update(Code.__members__)
    assert REASONS - used == set()


def test_the_list_of_other_texts_only_shrinks() -> None:
    assert {text for path in modules() for text in strings_of(path.read_text())} >= NOT_REASONS


def test_reasons_are_seen_wherever_they_stand() -> None:
    text = """
NOT_SEEN = 1
__all__ = ["NOT_SEEN"]
raise NotFoundError("GONE_AWAY" if there else "GONE_FAR", error_pb2.BY_NAME)
"""
    assert strings_of(text) == {"GONE_AWAY", "GONE_FAR"}
    assert set(attributes_of(text)) == {"BY_NAME"}
    assert IN_SQL.findall("SET state = 'FAILED', reason = 'ATTEMPTS_EXHAUSTED'")[-1] == "ATTEMPTS_EXHAUSTED"
