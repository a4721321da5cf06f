"""Prometheus, promtool and sloth, built once from the Go modules that tools/observability pins.

They are kept in GROUNDLINE_OBSERVABILITY_CACHE, by default groundline/observability below the user's folder
for caches.
"""

from pathlib import Path
from typing import Final

from groundline_tests.go.programs import build_tools, built, cache_folder, key_of, version_of
from service_requirements import ROOT

MODULES: Final = ROOT / "tools/observability"
SLOTH: Final = "github.com/slok/sloth"
WITHOUT_CLOUDS: Final = "remove_all_sd"
"""Build tag that leaves out the search for targets in clouds, and the libraries that it needs."""


def programs() -> Path:
    """Return the folder with `bin/prometheus`, `bin/promtool` and `bin/sloth`; build it if it is missing."""
    return built(cache_folder("observability"), key_of(MODULES, Path(__file__)), _build)


def _build(folder: Path) -> None:
    sloth = MODULES / "sloth"
    # It writes its version into the rules that it makes.
    named = f"{SLOTH}/internal/info.Version={version_of(sloth, SLOTH)}"
    build_tools(MODULES, folder / "bin", f"-tags={WITHOUT_CLOUDS}")
    build_tools(sloth, folder / "bin", f"-tags={WITHOUT_CLOUDS}", variables=(named,))
