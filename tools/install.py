"""Install packages by uv: `tools/install.py` with its arguments, into the environment that runs this or, with
`--python PATH` as the first ones, into another.

uv takes a tenth of pip's time. It does not read pip's configuration, which says where this machine's packages
come from; this hands it on.
"""

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from service_requirements import pins

UV: Final = Path(sys.executable).with_name("uv")

VARIABLES: Final = {
    "cert": "SSL_CERT_FILE",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-index": "UV_NO_INDEX",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
"""Options of pip, and the variables of uv that mean the same."""


def variables(configuration: str) -> Mapping[str, str]:
    """Return uv's variables for what `pip config list` shows; pip's later lines count."""
    found: dict[str, str] = {}
    for line in configuration.splitlines():
        name, _, value = line.partition("=")
        if variable := VARIABLES.get(name.rpartition(".")[2]):
            named = ast.literal_eval(value).split()
            if variable == "UV_FIND_LINKS":
                # pip passes over a folder that is not there, as in a container; uv fails.
                named = [",".join(one for one in named if "://" in one or Path(one).exists())]
            found[variable] = " ".join(named)
    return {name: value for name, value in found.items() if value}


def bootstrap() -> None:
    """Install the pinned uv by pip."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pinned:
        pinned.write(pins()["uv"])
        pinned.flush()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", pinned.name]
        subprocess.run(command, check=True)


@cache
def environment() -> Mapping[str, str]:
    """Return the variables that uv runs with."""
    shown = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    )
    # The hashes decide what is taken, whichever index has it.
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **variables(shown.stdout), **os.environ}


def install(python: Path | str, *arguments: Path | str) -> int:
    """Install into the environment of that interpreter; return uv's exit code."""
    command = [UV, "pip", "install", "--python", python, *arguments]
    # On a terminal it shows how far it is; a log needs no list of packages.
    command += [] if sys.stderr.isatty() else ["--quiet"]
    return subprocess.run(command, check=False, env=environment()).returncode


def main() -> int:
    if not UV.exists():
        bootstrap()
    match sys.argv[1:]:
        case ["--python", python, *arguments]:
            return install(python, *arguments)
        case arguments:
            return install(sys.executable, *arguments)


if __name__ == "__main__":
    raise SystemExit(main())
