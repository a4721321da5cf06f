"""The layers of docs/architecture.md: what may import what, and that every package says what it needs."""

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Set
from functools import cache
from importlib import metadata
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = sorted(
    path.parent
    for pattern in ("libs/*", "services/*", "gateway", "clients/python", "cli", "benchmarks")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
SERVICES = [package for package in PACKAGES if package.parent.name == "services"]

# Modules of a service that meet the wire, a database, a provider or the start of the process.
EDGES = ("__main__.py", "converters.py", "importing.py", "index_command.py", "migrate.py", "servicer.py")
EDGE_FOLDERS = ("adapters", "converters")

# PostgreSQL is the suite's only state, so its stores are not abstracted: `service` takes them as they are.
STORES = "adapters.postgres"
STORES_OF_ALL = "groundline_indexing"

# All that the others may import beside the standard library and their own package: a new provider's SDK is
# forbidden without being named.
CORE_MAY_IMPORT = (
    "cachetools",
    "google.protobuf",
    "groundline.v1",
    "groundline_contracts",
    "groundline_embedding",
    "groundline_extraction",
    "groundline_filters",
    "groundline_indexing.collections",
    "groundline_indexing.documents",
    "groundline_indexing.hashes",
    "groundline_indexing.inputs",
    "groundline_indexing.texts",
    "groundline_lexical",
    "groundline_runtime.charges",
    "groundline_runtime.coalescing",
    "groundline_runtime.context",
    "groundline_runtime.errors",
    "groundline_runtime.metrics",
    "groundline_runtime.paging",
    "groundline_runtime.quotas",
    "groundline_runtime.reasons",
    "groundline_runtime.serving.detached",
    "groundline_runtime.settings",
    "groundline_runtime.tokens",
    "groundline_runtime.turns",
    "groundline_runtime.waking",
    "groundline_language",
    "groundline_ranking",
    "groundline_signatures",
    "groundline_tables",
    "groundline_validation",
    "numpy",
    "opentelemetry",
    "py_rust_stemmers",
    "pydantic",
    "rapidfuzz",
    "structlog",
    "tenacity",
    "yaml",
)
SETTINGS_MAY_IMPORT = (
    "groundline_database",
    "groundline_indexing.settings",
    "groundline_weaviate",
    "pydantic_settings",
)


def modules_of(package: Path) -> Iterator[Path]:
    for path in sorted(package.glob("groundline*/**/*.py")):
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            yield path


@cache
def imports_of(module: Path) -> Set[str]:
    """Absolute names that a module imports anywhere in its text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def imports_any(names: Set[str], prefixes: tuple[str, ...]) -> set[str]:
    return {name for name in names if any(name == p or name.startswith(f"{p}.") for p in prefixes)}


def closure(requirements: list[str]) -> set[str]:
    """Return the names of the distributions that installing `requirements` brings, extras and markers
    respected."""
    seen: set[tuple[str, str]] = set()
    pending = [(Requirement(text), "") for text in requirements]
    while pending:
        requirement, parent_extra = pending.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": parent_extra}):
            continue
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                declared = metadata.requires(name) or []
                pending.extend((Requirement(text), extra) for text in declared)
    return {name for name, _ in seen}


def is_core(module: Path) -> bool:
    """Tell whether a service's module is not one that meets the wire, a database, a provider or the start."""
    return module.name not in EDGES and not set(EDGE_FOLDERS) & set(module.parts)


def forbidden_in_core(names: Set[str], package: str, module: Path) -> set[str]:
    """Return what of `names` a core module must not import; `package` is the service's own."""
    allowed = (*CORE_MAY_IMPORT, *(SETTINGS_MAY_IMPORT if module.name == "settings.py" else ()))
    stores = (f"{package}.{STORES}", STORES_OF_ALL) if "service" in module.with_suffix("").parts else ()
    edges = tuple(f"{package}.{edge.removesuffix('.py')}" for edge in (*EDGES, *EDGE_FOLDERS))
    return {
        name
        for name in names
        if name.endswith("_pb2_grpc")
        or (imports_any({name}, edges) and not imports_any({name}, stores))
        or not (
            imports_any({name}, stores)
            or name.split(".")[0] in sys.stdlib_module_names
            or imports_any({name}, (package, *allowed))
            or any(one.startswith(f"{name}.") for one in allowed)
        )
    }


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_core_modules_know_no_transport_database_or_provider(service: Path) -> None:
    core = [module for module in modules_of(service) if is_core(module.relative_to(service))]
    assert len(core) > 3
    package = f"groundline_{service.name}"
    found = {
        module.relative_to(service).as_posix(): forbidden_in_core(
            imports_of(module), package, module.relative_to(service)
        )
        for module in core
    }
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "name",
    [
        "grpc",
        "asyncpg",
        "openai",
        "google.genai",
        "an_sdk_of_tomorrow",
        "groundline_database",
        "groundline_runtime.serving.server",
        "groundline.v1.chat_pb2_grpc",
        "groundline_ours.adapters.openai",
        "groundline_ours.servicer",
    ],
)
def test_what_core_modules_must_not_import_is_noticed(name: str) -> None:
    assert forbidden_in_core({name}, "groundline_ours", Path("service.py")) == {name}


def test_the_stores_are_for_service_alone() -> None:
    name = "groundline_ours.adapters.postgres.stores"
    assert forbidden_in_core({name}, "groundline_ours", Path("service/jobs.py")) == set()
    assert forbidden_in_core({name}, "groundline_ours", Path("domain/jobs.py")) == {name}


def test_core_modules_may_handle_the_contracts_messages_and_their_own_kind() -> None:
    names = {"groundline.v1", "groundline.v1.chat_pb2", "groundline_ours.domain", "asyncio", "numpy"}
    assert forbidden_in_core(names, "groundline_ours", Path("service.py")) == set()


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_never_imports_another(service: Path) -> None:
    others = tuple(f"groundline_{other.name}" for other in SERVICES if other != service)
    programs = ("groundline_cli", "groundline_gateway", "groundline_benchmarks")
    for module in modules_of(service):
        assert not imports_any(imports_of(module), (*others, *programs)), module


def test_extraction_reaches_no_database_and_no_network() -> None:
    names = {name for module in modules_of(ROOT / "libs/extraction") for name in imports_of(module)}
    own = {name for name in names if name.startswith("groundline")}
    assert own == imports_any(own, ("groundline.v1", "groundline_extraction", "groundline_runtime.turns"))
    forbidden = (
        "aiohttp",
        "asyncpg",
        "grpc",
        "http",
        "httpx",
        "requests",
        "socket",
        "ssl",
        "urllib.request",
        "urllib3",
    )
    assert imports_any(names, forbidden) == set()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_only_settings_read_the_environment(package: Path) -> None:
    if package.name in ("cli", "benchmarks"):
        pytest.skip("what starts a suite passes the user's environment on to it")
    for module in modules_of(package):
        names = imports_of(module)
        assert "os.environ" not in module.read_text() or "settings" in module.name, module
        assert "os.getenv" not in names, module


# Adapters, which only make test-frameworks has the frameworks for.
FRAMEWORKS = ("haystack", "langchain", "llama_index")

# Runs in a process of its own: imports every module of a package while the top-level packages of all other
# distributions are hidden, as they would be where only this one is installed.
IMPORT_ALONE = """
import importlib, json, sys
hidden, modules = json.load(sys.stdin)
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name in hidden:
            raise ModuleNotFoundError(f"{name} is not among the declared dependencies", name=name)
sys.meta_path.insert(0, Hide())
for module in modules:
    importlib.import_module(module)
"""


@pytest.fixture(scope="module")
def owners() -> dict[str, set[str]]:
    """Top-level package → distributions that bring it."""
    found: dict[str, set[str]] = {
        top: {canonicalize_name(name) for name in names} for top, names in packages_distributions().items()
    }
    # Editable installs list no files.
    return found | {next(p.glob("groundline*")).name: {distribution_name(p)} for p in PACKAGES}


def distribution_name(package: Path) -> str:
    return str(tomllib.loads((package / "pyproject.toml").read_text())["project"]["name"])


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_imports_alone_with_only_its_declared_dependencies(
    package: Path, owners: dict[str, set[str]]
) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    groups = project.get("optional-dependencies", {})
    extras = [r for name, group in groups.items() if name.replace("-", "_") not in FRAMEWORKS for r in group]
    allowed = closure([*project["dependencies"], *extras]) | {project["name"]}
    hidden = [top for top, names in owners.items() if not names & allowed]
    assert "pytest" in hidden
    modules = [
        ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        for path in package.glob("groundline*/**/*.py")
        if path.name != "__main__.py" and path.stem not in FRAMEWORKS
    ]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALONE],
        input=json.dumps([hidden, modules]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_package_has_a_readme_with_more_than_a_title(package: Path) -> None:
    assert len((package / "README.md").read_text().split()) > 40


@pytest.mark.parametrize(
    "name", ["constraints.txt", "docs.txt", "frameworks.txt", "models.txt", "training.txt"]
)
def test_pins_are_hashed_and_name_no_host(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    pins = [block for block in text.replace("\\\n", " ").splitlines() if block.strip()]
    assert pins
    assert all("==" in pin and "--hash=sha256:" in pin for pin in pins)
    assert "://" not in text
    assert "--index" not in text
