"""The version and the list of services, as the root's pyproject.toml has them."""

import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["groundline"]

VERSION: Final[str] = _PROJECT["version"]
"""The version of all packages and images."""

SERVICES: Final[tuple[str, ...]] = tuple(_PROJECT["services"])
"""Names of the packages that run as a process of their own, with an image each."""
