"""Keeps files that are made from others: written, or checked for being what they should be."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["write_or_check"]

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(arguments: Sequence[str], fresh: Mapping[Path, str], remake: str, usage: str) -> int:
    """Do what `write` or `check` says of the fresh texts; the exit code. `remake` is the command to run."""
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
