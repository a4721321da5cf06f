"""Sizes that a reader takes in: of modules, functions, constructors and folders, tests and tools included."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]

MAXIMUM_MODULE_LINES: Final = 500
MAXIMUM_FUNCTION_LINES: Final = 60
MAXIMUM_CONSTRUCTOR_PARAMETERS: Final = 7
MAXIMUM_FOLDER_MODULES: Final = 15

GENERATED: Final = (
    "_pb2.py",
    "_pb2_grpc.py",
    "groundline_client/models.py",
    "groundline_client/sync_client.py",
)

STATUS: Final = "a parameter for each part of google.rpc.Status"
ALGORITHM: Final = "one algorithm, whose steps share their types"
SEARCH: Final = "a parameter for each option of a search"
COMMANDS: Final = "a module for each command"
CLOSURES: Final = "its two sides share what waits or is asked, by closures"
OPTIONS: Final = "each option of a command has its line"

# Why each may be larger. A line goes when its cause does; a line is added only with a reason of its own.
EXCEPTIONS: Final[Mapping[str, str]] = {
    "benchmarks/groundline_benchmarks/retrieval/command.py::retrieval": OPTIONS,
    "benchmarks/groundline_benchmarks/soak/command.py::soak": OPTIONS,
    "cli/groundline_cli/commands": COMMANDS,
    "clients/python/groundline_client/async_client.py": "one method for each method of the API",
    "clients/python/groundline_client/errors.py::ApiError.__init__": STATUS,
    "clients/python/groundline_client/llama_index.py::GroundlineRetriever.__init__": SEARCH,
    "libs/extraction/groundline_extraction/readers/pdf/layout.py": ALGORITHM,
    "libs/runtime/groundline_runtime/coalescing.py::coalesced": CLOSURES,
    "services/bridge/groundline_bridge/tools.py::Tools.__init__": "the table of the tools",
    "tests/support/groundline_tests/cluster/control_plane.py::control_plane": OPTIONS,
    "tests/support/groundline_tests/extraction/compound_files.py::compound_file": ALGORITHM,
    "tests/support/groundline_tests/gateway/running.py::FakeGateway.reply": "a case for each route",
    "tools": COMMANDS,
}


def modules() -> Iterator[Path]:
    packages = ("libs/*", "services/*", "gateway", "clients/python", "cli", "benchmarks", "training")
    for pattern in (*(f"{package}/groundline*" for package in packages), "tests", "tools"):
        for path in ROOT.glob(f"{pattern}/**/*.py"):
            if not path.as_posix().endswith(GENERATED):
                yield path.relative_to(ROOT)


def oversized(modules: Mapping[str, str]) -> set[str]:
    """Return the paths of folders and modules, and `path::Class.name` of functions, above a maximum."""
    folders = [path.rpartition("/")[0] for path in modules]
    found = {folder for folder in folders if folders.count(folder) > MAXIMUM_FOLDER_MODULES}
    for path, text in modules.items():
        if len(text.splitlines()) > MAXIMUM_MODULE_LINES:
            found.add(path)
        found |= {f"{path}::{name}" for name in _oversized_functions(ast.parse(text), "")}
    return found


def _oversized_functions(parent: ast.AST, prefix: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.expr):
            continue  # has no functions
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _oversized_functions(node, prefix)
            continue
        name = prefix + node.name
        if not isinstance(node, ast.ClassDef):
            arguments = node.args
            parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1:]
            is_long = (node.end_lineno or 0) - node.lineno >= MAXIMUM_FUNCTION_LINES
            if is_long or (node.name == "__init__" and len(parameters) > MAXIMUM_CONSTRUCTOR_PARAMETERS):
                yield name
        yield from _oversized_functions(node, f"{name}.")


def test_what_is_larger_than_the_rule_has_a_reason_and_a_reason_goes_with_its_cause() -> None:
    found = oversized({path.as_posix(): (ROOT / path).read_text() for path in modules()})
    assert found == set(EXCEPTIONS)


def test_each_kind_of_excess_is_noticed_and_the_maximum_itself_is_allowed() -> None:
    def module(extra: int) -> str:
        body = "\n".join(["        pass"] * (MAXIMUM_FUNCTION_LINES - 1 + extra))
        names = ", ".join(f"p{number}" for number in range(MAXIMUM_CONSTRUCTOR_PARAMETERS + extra))
        text = f"class A:\n    def __init__(self, {names}): pass\n    async def long(self):\n{body}\n"
        return text + "\n" * (MAXIMUM_MODULE_LINES + extra - text.count("\n"))

    modules = {f"folder/{number}.py": "" for number in range(MAXIMUM_FOLDER_MODULES - 1)}
    assert oversized({**modules, "folder/a.py": module(extra=0)}) == set()
    assert oversized({**modules, "folder/a.py": module(extra=1), "folder/b.py": ""}) == {
        "folder",
        "folder/a.py",
        "folder/a.py::A.__init__",
        "folder/a.py::A.long",
    }
