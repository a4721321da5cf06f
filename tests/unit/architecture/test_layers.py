"""The shape that design.md decides: what may import what, and that every package says what it needs."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = sorted(
    path.parent
    for pattern in ("libs/*", "services/*", "gateway", "cli")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
SERVICES = [package for package in PACKAGES if package.parent.name == "services"]
CORE_FORBIDDEN = ("grpc", "asyncpg", "google", "groundline.v1")


def modules_of(package: Path) -> Iterator[Path]:
    for path in sorted(package.glob("groundline*/**/*.py")):
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            yield path


def imports_of(module: Path) -> set[str]:
    """Absolute names that a module imports anywhere in its text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def imports_any(names: set[str], prefixes: tuple[str, ...]) -> set[str]:
    return {name for name in names if any(name == p or name.startswith(f"{p}.") for p in prefixes)}


def closure(requirements: list[str]) -> set[str]:
    """Names of the distributions that installing `requirements` brings, extras and markers respected."""
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


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
@pytest.mark.parametrize("core", ["domain", "ports", "service"])
def test_core_modules_know_no_transport_database_or_provider(service: Path, core: str) -> None:
    modules = list(service.glob(f"groundline_*/{core}.py")) + list(service.glob(f"groundline_*/{core}/*.py"))
    assert modules, f"{service.name} has no {core}"
    for module in modules:
        assert not imports_any(imports_of(module), CORE_FORBIDDEN), module


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_never_imports_another(service: Path) -> None:
    others = tuple(f"groundline_{other.name}" for other in SERVICES if other != service)
    for module in modules_of(service):
        assert not imports_any(imports_of(module), (*others, "groundline_cli", "groundline_gateway")), module


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_only_settings_read_the_environment(package: Path) -> None:
    if package.name == "cli":
        pytest.skip("the command and the supervisor pass the user's environment on")
    for module in modules_of(package):
        names = imports_of(module)
        assert "os.environ" not in module.read_text() or "settings" in module.name, module
        assert "os.getenv" not in names, module


# Runs in a process of its own: imports every module of a package while distributions outside the allowed set
# are hidden, as they would be where only the package is installed.
IMPORT_ALONE = """
import importlib, sys
from importlib import metadata
allowed, modules = set(sys.argv[1].split(",")), sys.argv[2].split(",")
def normal(name): return name.lower().replace("_", "-").replace(".", "-")
owners = {}
for distribution in metadata.distributions():
    for file in distribution.files or ():
        owners.setdefault(file.parts[0].removesuffix(".py"), set()).add(normal(distribution.metadata["Name"]))
for top, names in metadata.packages_distributions().items():
    owners.setdefault(top, set()).update(normal(name) for name in names)
class Hide:
    def find_spec(self, name, path=None, target=None):
        names = owners.get(name)
        if names and not names & allowed:
            raise ModuleNotFoundError(f"{name} is not among the declared dependencies", name=name)
sys.meta_path.insert(0, Hide())
for module in modules:
    importlib.import_module(module)
"""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_imports_alone_with_only_its_declared_dependencies(package: Path) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    extras = [r for group in project.get("optional-dependencies", {}).values() for r in group]
    allowed = closure([*project["dependencies"], *extras]) | {project["name"]}
    modules = [
        ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        for path in package.glob("groundline*/**/*.py")
        if path.name != "__main__.py"
    ]
    command = [sys.executable, "-c", IMPORT_ALONE, ",".join(sorted(allowed)), ",".join(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_package_has_a_readme_with_more_than_a_title(package: Path) -> None:
    assert len((package / "README.md").read_text().split()) > 40


@pytest.mark.parametrize("name", ["constraints.txt", "models.txt"])
def test_pins_are_hashed_and_name_no_host(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    pins = [block for block in text.replace("\\\n", " ").splitlines() if block.strip()]
    assert pins
    assert all("==" in pin and "--hash=sha256:" in pin for pin in pins)
    assert "://" not in text
    assert "--index" not in text
