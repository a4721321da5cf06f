"""Kubernetes, etcd and kwok, built once from the Go modules that tools/cluster pins.

They are kept in GROUNDLINE_CLUSTER_CACHE, by default groundline/cluster below the user's folder for caches.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from service_requirements import ROOT

MODULES: Final = ROOT / "tools/cluster"
CACHE: Final = Path(
    os.environ.get("GROUNDLINE_CLUSTER_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundline/cluster"
)

DEFINITIONS: Final = {
    "github.com/cloudnative-pg/cloudnative-pg": "config/crd/bases",
    "github.com/cert-manager/cert-manager": "deploy/crds",
}
"""Folders of the definitions of operators' kinds, by their modules."""

STAGES: Final = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
"""Stages that kwok applies to nodes and pods, as its module describes them."""


def programs() -> Path:
    """Return the folder with `bin`, `definitions` and `stages`; build it if it is missing."""
    folder = CACHE / _key()
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    # Another run may build the same: the first to finish puts it in place.
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="building-") as building:
        made = Path(building) / "made"
        _build(made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


def _key() -> str:
    """Return a key that changes with every pinned version and with the compiler."""
    digest = hashlib.sha256(_go(MODULES, "env", "GOVERSION", "GOOS", "GOARCH").encode())
    digest.update(Path(__file__).read_bytes())
    for path in sorted(MODULES.rglob("go.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _go(module: Path, *arguments: str | Path) -> str:
    # Use neither another toolchain nor another workspace.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    command = ["go", *map(str, arguments)]
    done = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def _build(folder: Path) -> None:
    binaries = folder / "bin"
    binaries.mkdir(parents=True)
    kubernetes, kwok = MODULES / "kubernetes", MODULES / "kwok"
    release = _go(kubernetes, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").strip()
    major, minor, _ = release.removeprefix("v").split(".")
    version = {"gitVersion": release, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    named = [f"-X {package}.{name}={value}" for package in packages for name, value in version.items()]
    for module in (kubernetes, kwok):
        flags = " ".join(("-s -w", *named))
        _go(module, "build", "-mod=readonly", "-trimpath", f"-ldflags={flags}", "-o", f"{binaries}/", "tool")
    # go names the program after its package.
    (binaries / "server").rename(binaries / "etcd")

    for path in _modules(MODULES / "operators", DEFINITIONS):
        _copy(path, folder / "definitions")
    [home] = _modules(kwok, {"sigs.k8s.io/kwok": "kustomize/stage"})
    for stage in STAGES:
        _copy(home / stage, folder / "stages")


def _modules(module: Path, folders: dict[str, str]) -> Iterable[Path]:
    """Yield folders inside of other modules, whose content go.sum vouches for."""
    shown = _go(module, "mod", "download", "-json", *folders)
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
