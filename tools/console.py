"""Build the console, and check that what the gateway serves is what its source makes.

console.py install|write|check
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from npm import NpmError, npm
from project import ROOT

SOURCE: Final = ROOT / "console"
SERVED: Final = ROOT / "gateway/groundline_gateway/page"
"""Holds index.html and, below console/, what that loads, beside pages that are not built."""


class ConsoleError(Exception):
    """The console does not build; the text is its compiler's or its bundler's."""


def run(*arguments: str) -> None:
    """Run npm in the console's folder. Raises ConsoleError."""
    command = npm()
    # Programs of packages look for node on PATH, where npm that is installed beside the interpreter is not.
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [*command, *arguments],
        cwd=SOURCE,
        env=os.environ | {"PATH": path},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ConsoleError(f"{done.stdout}{done.stderr}".strip())


def install() -> None:
    """Install the locked packages, unless they are."""
    installed, lock = SOURCE / "node_modules/.package-lock.json", SOURCE / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        run("ci", "--silent", "--no-audit", "--no-fund")


def build(target: Path) -> dict[str, bytes]:
    """Return the built files, by their paths below the page's address. Raises ConsoleError."""
    run("run", "check")
    run("run", "build", "--", "--outDir", str(target), "--emptyOutDir", "--logLevel", "warn")
    return {
        file.relative_to(target).as_posix(): file.read_bytes() for file in target.rglob("*") if file.is_file()
    }


def served() -> dict[str, bytes]:
    """Return what the gateway's package holds of the console."""
    files = [SERVED / "index.html", *(SERVED / "console").rglob("*")]
    return {file.relative_to(SERVED).as_posix(): file.read_bytes() for file in files if file.is_file()}


def write(files: dict[str, bytes]) -> None:
    # The names of old files have other hashes.
    shutil.rmtree(SERVED / "console", ignore_errors=True)
    for name, content in files.items():
        (SERVED / name).parent.mkdir(exist_ok=True)
        (SERVED / name).write_bytes(content)


def main() -> int:
    if sys.argv[1:] not in (["install"], ["write"], ["check"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        install()
        if sys.argv[1] == "install":
            return 0
        with TemporaryDirectory() as folder:
            files = build(Path(folder))
    except (ConsoleError, NpmError) as error:
        print(f"console: {error}", file=sys.stderr)
        return 1
    if sys.argv[1] == "write":
        write(files)
    elif files != (kept := served()):
        stale = sorted(name for name in files.keys() | kept.keys() if files.get(name) != kept.get(name))
        print(f"console: not what console/ makes: {', '.join(stale)}; run make console", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
