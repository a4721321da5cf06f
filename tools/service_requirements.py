"""Tell what a package of the workspace needs, so that an image or an environment holds nothing else.

    service_requirements.py packages PATH       directories of the workspace's packages, that one included
    service_requirements.py requirements PATH   pinned, hashed lines of constraints.txt for the rest
    service_requirements.py build               the same for what builds the packages' wheels
    service_requirements.py write               make requirements/closures.toml from what .venv has installed
    service_requirements.py check               fail when it is stale

PATH may be `run`, for what `make run` needs and is installed by. The first three need only Python, so that
the build of an image can ask. The closures are for all platforms and Python versions; what is for some only
has its marker from constraints.txt.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
CONSTRAINTS: Final = ROOT / "requirements/constraints.txt"
CLOSURES: Final = ROOT / "requirements/closures.toml"
HEADER: Final = "# What each image and `make run` install of constraints.txt. Made by `make lock-closures`.\n"
BUILD: Final = "build"
BUILD_REQUIREMENTS: Final = ("hatchling",)
COMMAND: Final = "cli"
RUN: Final = "run"
RUN_PACKAGE: Final = ROOT / "cli"
RUN_EXTRAS: Final = ("apply", "up")
RUN_BUILD_REQUIREMENTS: Final = ("hatchling", "editables")

# A requirement of a package of the workspace: its name, the extras that are asked for, its version.
_OWN: Final = re.compile(r"(groundline-[a-z]+)(?:\[([a-z,]+)\])?==.+")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def own_packages() -> dict[str, Path]:
    """Return the directories of the workspace's packages that exist, by their names."""
    found = (file.parent for pattern in ("*", "*/*") for file in ROOT.glob(f"{pattern}/pyproject.toml"))
    return {_project(directory)["name"]: directory for directory in found}


def _project(directory: Path) -> dict[str, Any]:
    file = directory / "pyproject.toml"
    project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return project


def needs(package: Path, extras: Iterable[str] = ()) -> tuple[list[Path], list[str]]:
    """Return the directories of the workspace's packages that `package` needs, itself included, and the other
    requirements."""
    own = own_packages()
    packages: dict[Path, set[str]] = {}
    requirements: dict[str, None] = {}

    def add(directory: Path, extras: set[str]) -> None:
        seen = packages.get(directory)
        if seen is not None and extras <= seen:
            return
        packages[directory] = extras | (seen or set())
        project = _project(directory)
        wanted = [*project.get("dependencies", [])]
        for extra in sorted(extras):
            wanted += project["optional-dependencies"][extra]
        for requirement in wanted:
            if found := _OWN.fullmatch(requirement):
                add(own[found[1]], set(filter(None, (found[2] or "").split(","))))
            else:
                requirements[requirement] = None

    add(package.resolve(), set(extras))
    return list(packages), list(requirements)


def pins() -> dict[str, str]:
    """Return the entries of the constraints file, hashes included, by normalised name."""
    entries = re.split(r"\n(?=\S)", CONSTRAINTS.read_text(encoding="utf-8").rstrip())
    return {normal(re.split(r"[=<>!~\s\[]", entry, maxsplit=1)[0]): entry for entry in entries}


def closure_of(program: str) -> list[str]:
    """Return the names in constraints.txt that a program, or `build`, needs. Raises SystemExit for an unknown
    one."""
    closures: dict[str, list[str]] = tomllib.loads(CLOSURES.read_text(encoding="utf-8"))
    if program not in closures:
        raise SystemExit(f"{program} is not in {CLOSURES.name}")
    return closures[program]


def hashed(program: str) -> str:
    """Return the pinned, hashed entries of the program's closure."""
    pinned = pins()
    return "\n".join(pinned[name] for name in closure_of(program))


def closure(requirements: Iterable[str]) -> list[str]:
    """Return the names in constraints.txt that the requirements lead to, by the metadata of the installed
    packages."""
    from packaging.requirements import Requirement

    pinned = pins()
    seen: dict[str, set[str]] = {}

    def add(requirement: Requirement) -> None:
        name = normal(requirement.name)
        if name not in pinned or (name in seen and requirement.extras <= seen[name]):
            return
        seen[name] = seen.get(name, set()) | requirement.extras
        try:
            dependencies = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            # Not for this platform; constraints.txt has a marker with it.
            return
        for text in dependencies:
            dependency = Requirement(text)
            # Only the extra decides: constraints.txt knows which platforms a package is for.
            if _is_asked_for(str(dependency.marker or ""), seen[name]):
                add(dependency)

    for text in requirements:
        add(Requirement(text))
    return sorted(seen)


def _is_asked_for(marker: str, extras: set[str]) -> bool:
    named = re.findall(r"extra == ['\"]([^'\"]+)['\"]", marker)
    return not named or any(normal(extra) in {normal(one) for one in extras} for extra in named)


def directory(program: str) -> Path:
    """Return the directory of a program's package."""
    return ROOT / "gateway" if program == "gateway" else ROOT / "services" / program


def fresh() -> str:
    """Return the text that closures.toml should have."""
    from project import SERVICES  # the build of an image has only this file

    closures = {program: closure(needs(directory(program))[1]) for program in SERVICES}
    closures[COMMAND] = closure(needs(RUN_PACKAGE)[1])
    closures[RUN] = closure([*needs(RUN_PACKAGE, RUN_EXTRAS)[1], *RUN_BUILD_REQUIREMENTS])
    closures[BUILD] = closure(BUILD_REQUIREMENTS)
    tables = []
    for name, distributions in closures.items():
        lines = "".join(f'    "{distribution}",\n' for distribution in distributions)
        tables.append(f"{name} = [\n{lines}]\n")
    return HEADER + "\n" + "\n".join(tables)


def main() -> int:
    match sys.argv[1:]:
        case ["packages", package]:
            needed, _ = needs(RUN_PACKAGE, RUN_EXTRAS) if package == RUN else needs(Path(package))
            print("\n".join(str(path.relative_to(ROOT)) for path in needed))
        case ["requirements", package]:
            print(hashed(Path(package).name))
        case ["build"]:
            print(hashed(BUILD))
        case ["write"]:
            CLOSURES.write_text(fresh(), encoding="utf-8")
        case ["check"]:
            if not CLOSURES.exists() or CLOSURES.read_text(encoding="utf-8") != fresh():
                print("requirements/closures.toml is stale, run make lock-closures", file=sys.stderr)
                return 1
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
