"""Writing and checking of files that are made from others."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from project import ROOT


def write_or_check(arguments: Sequence[str], fresh: Mapping[Path, str], remake: str, usage: str) -> int:
    """Write the fresh texts, or check that the files hold them; return the exit code. `remake` is the command
    to run."""
    match arguments:
        case ["write"]:
            for path, text in fresh.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        case ["check"]:
            stale = [path for path, text in fresh.items() if not _holds(path, text)]
            for path in stale:
                print(f"{path.relative_to(ROOT)} is stale, run {remake}", file=sys.stderr)
            return 1 if stale else 0
        case _:
            print(usage, file=sys.stderr)
            return 2
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
