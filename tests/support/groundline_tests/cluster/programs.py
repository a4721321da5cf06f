"""Kubernetes, etcd and kwok, built once from the Go modules that tools/cluster pins.

They are kept in GROUNDLINE_CLUSTER_CACHE, by default groundline/cluster below the user's folder for caches.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from groundline_tests.go.programs import build_tools, built, cache_folder, go, key_of, version_of
from service_requirements import ROOT

MODULES: Final = ROOT / "tools/cluster"

DEFINITIONS: Final = {
    "github.com/cloudnative-pg/cloudnative-pg": "config/crd/bases",
    "github.com/cert-manager/cert-manager": "deploy/crds",
    "github.com/argoproj/argo-rollouts": "manifests/crds",
    "github.com/fluxcd/flagger": "charts/flagger/crds",
    "sigs.k8s.io/gateway-api": "config/crd/standard",
}
"""Folders of the definitions of operators' kinds, by their modules."""

MONITORING: Final = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
MONITORING_KINDS: Final = ("podmonitors", "prometheusrules")
"""Kinds of the Prometheus Operator. Its module has their types in Go, from which its own tool makes the
definitions."""

STAGES: Final = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
"""Stages that kwok applies to nodes and pods, as its module describes them."""


def programs() -> Path:
    """Return the folder with `bin`, `definitions` and `stages`; build it if it is missing."""
    return built(cache_folder("cluster"), key_of(MODULES, Path(__file__)), _build)


def _build(folder: Path) -> None:
    binaries = folder / "bin"
    kubernetes, kwok = MODULES / "kubernetes", MODULES / "kwok"
    release = version_of(kubernetes, "k8s.io/kubernetes")
    major, minor, _ = release.removeprefix("v").split(".")
    version = {"gitVersion": release, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    named = tuple(f"{package}.{name}={value}" for package in packages for name, value in version.items())
    for module in (kubernetes, kwok):
        build_tools(module, binaries, variables=named)
    # go names the program after its package.
    (binaries / "server").rename(binaries / "etcd")

    for path in _modules(MODULES / "operators", DEFINITIONS):
        _copy(path, folder / "definitions")
    made = folder / "made"
    generate = ("tool", "controller-gen", "crd", f"paths={MONITORING}", f"output:crd:dir={made}")
    go(MODULES / "monitoring", *generate)
    for kind in MONITORING_KINDS:
        (made / f"monitoring.coreos.com_{kind}.yaml").rename(folder / "definitions" / f"{kind}.yaml")
    shutil.rmtree(made)
    [home] = _modules(kwok, {"sigs.k8s.io/kwok": "kustomize/stage"})
    for stage in STAGES:
        _copy(home / stage, folder / "stages")


def _modules(module: Path, folders: dict[str, str]) -> Iterable[Path]:
    """Yield folders inside of other modules, whose content go.sum vouches for."""
    shown = go(module, "mod", "download", "-json", *folders)
    decoder, position = json.JSONDecoder(), 0
    while position < len(shown.rstrip()):
        described, end = decoder.raw_decode(shown[position:])
        yield Path(described["Dir"]) / folders[described["Path"]]
        position += end + 1


def _copy(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for path in source.glob("*.yaml"):
        if path.name != "kustomization.yaml":
            shutil.copyfile(path, target / path.name)
