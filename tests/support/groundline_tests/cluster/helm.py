"""Helm, built once from the Go module that tools/helm pins, and what the chart renders to.

It is kept in GROUNDLINE_HELM_CACHE, by default groundline/helm below the user's folder for caches.
"""

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import yaml
from groundline_tests.cluster.control_plane import Node
from groundline_tests.go.programs import build_tools, built, cache_folder, key_of, version_of
from helm_chart import CHART
from service_requirements import ROOT

MODULE: Final = ROOT / "tools/helm"
HELM: Final = "helm.sh/helm/v4"
RELEASE: Final = "groundline"
HOOK: Final = "helm.sh/hook"


@cache
def helm_program() -> Path:
    """Return the program; build it if it is missing."""
    return built(cache_folder("helm"), key_of(MODULE, Path(__file__)), _build) / "bin/helm"


def _build(folder: Path) -> None:
    version = f"{HELM}/internal/version.version={version_of(MODULE, HELM)}"
    build_tools(MODULE, folder / "bin", variables=(version,))


def helm(*arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run Helm; it keeps nothing outside of `home`."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [helm_program(), *arguments], check=False, capture_output=True, text=True, env=environment
    )


def templated(home: Path, *options: str | Path) -> list[Node]:
    """Return the objects of a release, without those of its tests."""
    done = helm("template", RELEASE, CHART, *options, home=home)
    assert done.returncode == 0, done.stderr
    documents = [one for one in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if one]
    return [one for one in documents if HOOK not in one["metadata"].get("annotations", {})]
