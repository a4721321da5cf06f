"""Programs that tests run, built once by Go and kept in the user's folder for caches.

Those of one name are in groundline/NAME below that folder, or where GROUNDLINE_NAME_CACHE says.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

RELEASE: Final = ("-s", "-w")
"""Flags of the linker that leave out what only debuggers read."""


def cache_folder(name: str) -> Path:
    """Return the folder that keeps the programs of this name."""
    return Path(
        os.environ.get(f"GROUNDLINE_{name.upper()}_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundline" / name
    )


def built(cache: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder of this key; if it is missing, have `build` fill a new one."""
    folder = cache / key
    # An empty folder is what an earlier build left that failed.
    if any(folder.glob("*")):
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    # Another run may build the same: the first to finish puts it in place.
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as building:
        made = Path(building) / "made"
        made.mkdir()
        build(made)
        try:
            made.rename(folder)
        except OSError:
            if not any(folder.glob("*")):
                raise
    return folder


def key_of(modules: Path, recipe: Path) -> str:
    """Return a key that changes with every version pinned below `modules`, the compiler and the recipe."""
    digest = hashlib.sha256(go(modules, "env", "GOVERSION", "GOOS", "GOARCH").encode())
    for path in (Path(__file__), recipe, *sorted(modules.rglob("go.*"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build_tools(module: Path, binaries: Path, *options: str, variables: tuple[str, ...] = ()) -> None:
    """Build the tools that a module names into the folder; `variables` are `package.name=value`."""
    flags = " ".join((*RELEASE, *(f"-X {variable}" for variable in variables)))
    binaries.mkdir(exist_ok=True)
    build = ("build", "-mod=readonly", "-trimpath", *options, f"-ldflags={flags}")
    go(module, *build, "-o", f"{binaries}/", "tool")


def version_of(module: Path, path: str) -> str:
    """Return the version of another module that this one pins."""
    return go(module, "list", "-m", "-f", "{{.Version}}", path).strip()


def go(folder: Path, *arguments: str | Path, **variables: str) -> str:
    """Run Go in a module, and return what it prints; `variables` are added to its environment."""
    assert shutil.which("go"), "tests build this program from its Go module: install Go 1.26 or newer"
    # Use neither another toolchain nor another workspace.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", **variables}
    command = ["go", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout
