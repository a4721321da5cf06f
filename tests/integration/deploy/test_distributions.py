"""Wheels and source archives, as `make dist` builds them, in a clean environment."""

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from groundline_tests.images.installed import install_wheels

ROOT = Path(__file__).resolve().parents[3]
# Templates are copied by others, and belong to no release of ours.
PACKAGES = sorted(
    path.parent for path in ROOT.glob("*/**/pyproject.toml") if not {".venv", "templates"} & set(path.parts)
)

# Imports every module of our own, but the programs' entry modules, which run, and those for other frameworks,
# which are extras; and loads every command.
IMPORT_ALL = """
import importlib, pkgutil, sys
from importlib import metadata
from pathlib import Path
FRAMEWORKS = {"groundline_client." + one for one in ("haystack", "langchain", "llama_index")}
own = [one for one in metadata.distributions(path=[sys.argv[1]]) if one.name.startswith("groundline-")]
for distribution in own:
    for file in distribution.files:
        parts = list(file.with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if file.suffix == ".py" and parts[-1] != "__main__" and name not in FRAMEWORKS:
            module = importlib.import_module(name)
            assert Path(module.__file__).is_relative_to(sys.argv[1]), module.__file__
    for entry in distribution.entry_points:
        entry.load()
print(len(own))
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Distributions of `make dist`."""
    folder = tmp_path_factory.mktemp("dist")
    venv = Path(sys.prefix)
    # The environment that runs the tests is there already: its stamp must not be looked at.
    command = ["make", "dist", f"DIST={folder}", f"VENV={venv}", "--assume-old", f"{venv}/.ready"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def clean(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with our wheels. Third-party packages come from the workspace's, as
    pinned; its editable installations are not seen: a .pth file counts in its own environment only."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin/python"
    install_wheels(python, *sorted(dist.glob("*.whl")))
    (site_packages(python) / "third_party.pth").write_text(sysconfig.get_path("purelib"))
    return python


def site_packages(python: Path) -> Path:
    (found,) = (python.parent.parent / "lib").glob("python*/site-packages")
    return found


def run(python: Path, *arguments: str) -> str:
    done = subprocess.run([python, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_package_has_a_wheel_and_a_source_archive(dist: Path) -> None:
    assert len(list(dist.glob("*.whl"))) == len(list(dist.glob("*.tar.gz"))) == len(PACKAGES)


def test_a_source_archive_holds_what_its_wheel_does(dist: Path) -> None:
    for wheel in dist.glob("*.whl"):
        name = "-".join(wheel.name.split("-")[:2])
        with tarfile.open(dist / f"{name}.tar.gz") as archive:
            sources = {one.partition("/")[2] for one in archive.getnames()}
        built = {one for one in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in one}
        assert built - sources == set(), name
        assert {"LICENSE", "README.md", "pyproject.toml"} <= sources


def test_no_wheel_holds_tests_or_another_packages_modules(dist: Path) -> None:
    seen: dict[str, str] = {}
    for wheel in dist.glob("*.whl"):
        for name in zipfile.ZipFile(wheel).namelist():
            if ".dist-info/" not in name:
                assert "tests/" not in name
                assert seen.setdefault(name, wheel.name) == wheel.name
                assert name.startswith(("groundline_", "groundline/v1/"))


def test_every_module_and_command_of_the_wheels_can_be_imported(clean: Path) -> None:
    assert run(clean, "-c", IMPORT_ALL, str(site_packages(clean))) == str(len(PACKAGES))
    assert run(clean.parent / "groundline", "--version").startswith("groundline, version ")


def test_the_stubs_live_beside_an_unrelated_package_of_the_name(clean: Path) -> None:
    """The public index has a distribution "groundline", which is not ours."""
    unrelated = site_packages(clean) / "groundline/__init__.py"
    assert not unrelated.exists()
    unrelated.write_text("unrelated = True\n")
    try:
        script = "import groundline; from groundline.v1 import chat_pb2; print(groundline.unrelated)"
        assert run(clean, "-c", script) == "True"
    finally:
        unrelated.unlink()
