"""Every command, setting and piece of code that a page shows exists, whether or not it can be run here.

Those that can be are run by tests/e2e/test_shown_commands.py.
"""

import ast
import functools
import importlib.util
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import documentation
import pytest
import settings_tables
from groundline.v1 import error_pb2
from groundline_cli.__main__ import cli
from groundline_gateway.descriptors import exposed_services
from groundline_runtime.settings import ServiceSettings
from groundline_tests.shown import ROOT, Block, blocks, words
from jsonschema import Draft202012Validator

PAGES = [
    *(ROOT / path for path in documentation.INCLUDED),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "commands.md"),
]
BLOCKS = [block for page in PAGES for block in blocks(page)]
TARGETS = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SCRIPTS = {
    name
    for project in ROOT.glob("*/**/pyproject.toml")
    if ".venv" not in project.parts
    for name in tomllib.loads(project.read_text())["project"].get("scripts", {})
}
# Programs of others, whose own options are theirs to check.
OTHERS = frozenset(
    {
        "cat",
        "cd",
        "date",
        "docker",
        "echo",
        "git",
        "grep",
        "grpcurl",
        "helm",
        "kubectl",
        "mkdir",
        "npm",
        "ollama",
        "pg_basebackup",
        "pg_dump",
        "pg_restore",
        "pip",
        "pre-commit",
        "printf",
        "psql",
        "rm",
        "sed",
        "touch",
        "vllm",
    }
)
# Beside the settings of the services, and what the command's options read.
VARIABLES = frozenset(
    {
        "GROUNDLINE_DATABASE_PASSWORD",  # of deploy/compose.yaml
        "GROUNDLINE_CANDIDATE_VERSION",  # of deploy/compose.canary.yaml
        "GROUNDLINE_WEAVIATE_API_KEY",  # of deploy/compose.weaviate.yaml
        "GROUNDLINE_CLUSTER_CACHE",  # of tests
        "GROUNDLINE_TEST_IMAGES",
        "GROUNDLINE_TEST_POSTGRES_BIN",
        "GROUNDLINE_TEST_POSTGRES_URL",
        "GROUNDLINE_BENCH_DATABASE_URL",
    }
)
# Of others: the bridge answers them, and its tests check what it takes.
BRIDGED = ("/v1/", "/mcp")


def variables_of(command: click.Command, context: click.Context) -> Iterator[str]:
    """Return the environment variables that the options of a command, and of its subcommands, read."""
    for parameter in command.params:
        names = parameter.envvar or ()
        yield from [names] if isinstance(names, str) else names
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from variables_of(below, click.Context(below, context, name))


@functools.cache
def settings() -> frozenset[str]:
    """Return the names of all settings: a service's own, and those that services share."""
    shared = {row.split("`")[1] for row in settings_tables.rows(ServiceSettings, "GROUNDLINE_")}
    found = VARIABLES | shared | set(variables_of(cli, click.Context(cli)))
    for service, one in settings_tables.CLASSES.items():
        for row in settings_tables.rows(one, ""):
            name = row.split("`")[1]
            found |= {f"GROUNDLINE_{service.upper()}_{name}", f"GROUNDLINE_{name}"}
    return found


@pytest.fixture(scope="module")
def api() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = json.loads((ROOT / "docs/reference/openapi.json").read_text())
    return loaded


def simple_commands(command: str) -> Iterator[list[str]]:
    """Return the commands of a pipeline or a list, each as its words; redirections are left out."""
    found: list[str] = []
    is_redirected = False
    for word in words(command):
        if re.fullmatch(r"[|&;]+", word):
            yield found
            found = []
        elif re.fullmatch(r"[<>]+", word):
            is_redirected = True
        elif is_redirected:
            is_redirected = False
        else:
            found.append(word)
    if found:
        yield found


def check(arguments: Sequence[str], api: Mapping[str, Any]) -> None:
    """Raise AssertionError, or click's UsageError, if a command is invalid."""
    arguments = list(arguments)
    while arguments and (assigned := re.match(r"(\w+)=", arguments[0])):
        check_variable(assigned[1])
        arguments.pop(0)
    if not arguments:
        return
    program, rest = arguments[0].rpartition("/")[2], arguments[1:]
    if program == "groundline":
        check_groundline(rest)
    elif program == "make":
        check_make(rest)
    elif program == "curl":
        check_curl(rest, api)
    elif program == "export":
        for assignment in rest:
            check_variable(assignment.partition("=")[0])
    elif program == "eval":
        (text,) = rest
        check(words(text.removeprefix("$(").removesuffix(")")), api)
    elif program == "roll-out":
        assert (ROOT / arguments[0]).is_file()
        check(rest[1:], api)
    elif program == "kubectl" and "-k" in rest:
        assert (ROOT / rest[rest.index("-k") + 1]).is_dir()
    elif program == "docker":
        assert (ROOT / rest[rest.index("--file") + 1]).is_file()
    elif program in ("pip", "npm"):
        assert all((ROOT / one).is_dir() for one in rest if one.startswith("./"))
    else:
        assert program in SCRIPTS | OTHERS, f"nobody knows {program}"


def check_variable(name: str) -> None:
    if name.startswith("GROUNDLINE_"):
        assert name in settings(), f"no setting is called {name}"


def check_make(arguments: Sequence[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {name for line in TARGETS for name in line.split()}
    for argument in arguments:
        name, is_variable, _ = argument.partition("=")
        if is_variable:
            assert re.search(rf"^(export )?{name} [?:]?=", makefile, re.MULTILINE), argument
        else:
            assert name in targets, f"make knows no {name}"


def check_groundline(arguments: Sequence[str]) -> None:
    command: click.Command = cli
    context = click.Context(cli, info_name="groundline")
    left = [argument for argument in arguments if argument != "…"]
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        name = left.pop(0)
        below = command.get_command(context, name)
        assert below is not None, f"{context.command_path} has no command {name}"
        command, context = below, click.Context(below, context, name)
    given, extra, _ = command.make_parser(context).parse_args(left)
    assert not extra, f"{context.command_path} does not take {extra}"
    for parameter in command.params:
        value = given.get(parameter.name or "")
        if isinstance(value, str) and not isinstance(parameter.type, click.Path):
            parameter.type_cast_value(context, value)
        # Pages leave arguments out where the sentence around names them.
        if parameter.required and isinstance(parameter, click.Option) and arguments:
            assert value is not None, f"{context.command_path} needs {parameter.opts[-1]}"


def check_curl(arguments: Sequence[str], api: Mapping[str, Any]) -> None:
    given = list(arguments)
    method, body, url = "", "", ""
    while given:
        option = given.pop(0)
        if option in ("-H", "-X", "-d"):
            value = given.pop(0)
            method = value if option == "-X" else method
            body = value if option == "-d" else body
        elif not option.startswith("-"):
            url = option
    path = urlsplit(re.sub(r"^\$\w+", "http://gateway", url)).path
    if path in ("/", "/healthz", "/openapi.json", "/docs") or path.startswith(BRIDGED):
        return
    method = method.lower() or ("post" if body else "get")
    pattern = next((one for one in api["paths"] if same_path(one, path)), None)
    assert pattern is not None, f"the API has no address {path}"
    assert method in api["paths"][pattern], f"{path} does not take {method}"
    if body:
        schema = api["paths"][pattern][method]["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator({**schema, "components": api["components"]}).validate(json.loads(body))


def same_path(pattern: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/:]+", re.escape(pattern)), path) is not None


@pytest.mark.parametrize(
    "block", [one for one in BLOCKS if one.language in ("sh", "console")], ids=lambda one: one.place
)
def test_every_command_that_is_shown_exists_as_it_is_written(block: Block, api: Mapping[str, Any]) -> None:
    commands = block.commands()
    assert commands, "a console block without a `$ ` has no command"
    for command in commands:
        for simple in simple_commands(command.text):
            check(simple, api)


@pytest.mark.parametrize(
    "block", [one for one in BLOCKS if one.language == "python"], ids=lambda one: one.place
)
def test_what_shown_code_imports_exists(block: Block) -> None:
    for node in ast.walk(ast.parse(block.body)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("groundline"):
            for alias in node.names:
                assert defines(node.module or "", alias.name), f"{node.module} has no {alias.name}"


def defines(module: str, name: str) -> bool:
    """Tell whether something of that name can be imported; an adapter's framework need not be installed."""
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None or (error.name or "").startswith("groundline"):
            raise
        tree = ast.parse(Path(spec.origin).read_text())
        return any(getattr(node, "name", None) == name for node in tree.body)
    return hasattr(loaded, name) or importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "ts"], ids=lambda one: one.place)
def test_shown_typescript_reads_fields_that_the_answers_have(block: Block) -> None:
    assert unknown_fields(block.body) == set()


def test_a_field_that_an_answer_lacks_is_found() -> None:
    assert unknown_fields("const a = await client.answer({});\na.answer + a.text") == {"a.text"}


def unknown_fields(code: str) -> set[str]:
    """Return what the code reads of a client's answers and the contract does not have."""
    found = set()
    for name, method in re.findall(r"const (\w+) = await client\.(\w+)\(", code):
        methods = (
            service.methods_by_name.get(method[0].upper() + method[1:]) for service in exposed_services()
        )
        (rpc,) = filter(None, methods)
        known = {field.json_name for field in rpc.output_type.fields}
        found |= {f"{name}.{field}" for field in re.findall(rf"\b{name}\.(\w+)", code) if field not in known}
    return found


@pytest.mark.parametrize(
    "block", [one for one in BLOCKS if one.language == "json"], ids=lambda one: one.place
)
def test_shown_json_is_json(block: Block) -> None:
    json.loads(block.body)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_setting_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"GROUNDLINE_[A-Z0-9_]*[A-Z0-9](?![A-Z0-9_…*<{])", page.read_text())
    assert set(named) - settings() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_sets_the_gateway_and_the_key_before_it_uses_them(page: Path) -> None:
    are_set = False
    for block in blocks(page):
        for command in block.commands() if block.language in ("sh", "console") else ():
            are_set = (
                are_set
                or re.search(r"groundline env\b|^export GROUNDLINE_GATEWAY_URL=", command.text) is not None
            )
            assert are_set or not re.search(r"\$GROUNDLINE_(API_KEY|GATEWAY_URL)", command.text), block.place


def test_every_reason_has_a_place_among_the_troubles() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    places = {name.upper() for name in re.findall(r'<a id="(\w+)"></a>', page)}
    assert places == set(error_pb2.ErrorReason.keys()) - {"ERROR_REASON_UNSPECIFIED"}


@pytest.mark.parametrize(
    "wrong",
    [
        "groundline ingest docs --colection handbook",
        "groundline ingset docs --collection handbook",
        'groundline search "x" --mode quick',
        "groundline ingest docs",
        "make runn",
        "make images SERVCE=retriever",
        "export GROUNDLINE_GENERATOR_PROVDER=gemini",
        "kubectl apply -k deploy/k8s/overlays/testing",
        'curl "$GROUNDLINE_GATEWAY_URL/api/ask" -d \'{"query": "x"}\'',
        'curl "$GROUNDLINE_GATEWAY_URL/api/search" -d \'{"question": "x"}\'',
        'curl -X DELETE "$GROUNDLINE_GATEWAY_URL/api/search"',
        "groundlin ask",
        'eval "$(groundline environment)"',
    ],
)
def test_a_mistake_is_found(wrong: str, api: Mapping[str, Any]) -> None:
    with pytest.raises(Exception, match=r"\S") as found:
        check(list(words(wrong)), api)
    assert not isinstance(found.value, KeyError | IndexError)


def test_the_commands_readme_names_every_command() -> None:
    readme = (ROOT / "cli/README.md").read_text()
    assert [
        name
        for name in cli.list_commands(click.Context(cli))
        if not re.search(rf"(`|groundline ){name}\b", readme)
    ] == []
