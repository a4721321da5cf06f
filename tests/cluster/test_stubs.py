"""Stubs in other languages, made from the contract as docs/how-to/clients.md says."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from groundline.v1 import coordinator_service_pb2
from groundline_tests.go.programs import built, cache_folder
from groundline_tests.programs import needs_program
from service_requirements import ROOT

PINNED = ROOT / "tools/stubs"
"""A Go module, an npm package and a Maven project with the plugins, and what their stubs import."""


def run(*command: str | Path, cwd: Path, environment: Mapping[str, str] = os.environ) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def with_plugins(plugins: Path) -> Mapping[str, str]:
    return {**os.environ, "PATH": f"{plugins}{os.pathsep}{os.environ['PATH']}"}


def copy_pinned(folder: Path, *names: str) -> None:
    for name in names:
        shutil.copyfile(PINNED / name, folder / name)


def generate(language: str, descriptor_set: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Write the stubs of a language into the folder of its name."""
    template = ROOT / f"clients/stubs/buf.gen.{language}.yaml"
    run(
        *(Path(sys.executable).parent / "buf", "generate", descriptor_set),
        *("--template", template, "--path", "groundline/v1"),
        cwd=folder,
        environment=environment,
    )
    return folder / language


@pytest.fixture(scope="module")
def descriptor_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("contract") / "groundline.binpb"
    run(sys.executable, ROOT / "tools/protos.py", "image", path, cwd=ROOT)
    return path


def test_go_stubs_compile(tmp_path: Path, descriptor_set: Path) -> None:
    plugins = tmp_path / "bin"
    # Neither another toolchain nor another workspace than what is here.
    environment = {**with_plugins(plugins), "GOTOOLCHAIN": "local", "GOWORK": "off"}
    run("go", "build", "-mod=readonly", "-o", f"{plugins}/", "tool", cwd=PINNED, environment=environment)
    stubs = generate("go", descriptor_set, tmp_path, environment)
    copy_pinned(stubs, "go.mod", "go.sum")
    # Without the path, Go knows from its cache that the same stubs have compiled before.
    run("go", "build", "-mod=readonly", "-trimpath", "./...", cwd=stubs, environment=environment)
    assert (stubs / "groundlinev1/coordinator_service_grpc.pb.go").exists()


@needs_program("nodejs", found=shutil.which("node") is not None)
def test_typescript_stubs_compile_and_are_loaded_by_node(tmp_path: Path, descriptor_set: Path) -> None:
    copy_pinned(tmp_path, "package.json", "package-lock.json", "tsconfig.json")
    npm = (sys.executable, ROOT / "tools/npm.py", "ci", "--prefer-offline", "--no-audit", "--no-fund")
    run(*npm, cwd=tmp_path)
    generate("typescript", descriptor_set, tmp_path, os.environ)
    run(tmp_path / "node_modules/.bin/tsc", cwd=tmp_path)
    (tmp_path / "methods.js").write_text(
        'import { CoordinatorService } from "./built/groundline/v1/coordinator_service_pb.js";\n'
        "for (const method of CoordinatorService.methods) console.log(method.name);\n"
    )
    service = coordinator_service_pb2.DESCRIPTOR.services_by_name["CoordinatorService"]
    listed = run("node", "methods.js", cwd=tmp_path).split()
    assert listed == [method.name for method in service.methods]


@needs_program("default-jdk-headless", found=shutil.which("javac") is not None)
@needs_program("maven", found=shutil.which("mvn") is not None)
def test_java_stubs_compile(descriptor_set: Path) -> None:
    # What is compiled, and by what: the same has compiled before.
    template, versions = ROOT / "clients/stubs/buf.gen.java.yaml", run("mvn", "--version", cwd=PINNED)
    digest = hashlib.sha256(versions.encode())
    for path in (descriptor_set, template, PINNED / "pom.xml", Path(__file__)):
        digest.update(path.read_bytes())
    folder = built(cache_folder("stubs"), digest.hexdigest()[:16], partial(compile_java, descriptor_set))
    assert (folder / "classes/dev/groundline/v1/CoordinatorServiceGrpc.class").exists()


def compile_java(descriptor_set: Path, kept: Path) -> None:
    """Make the stubs, and keep what they are compiled into."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plugins = folder / "bin"
        environment = {
            **with_plugins(plugins),
            # Half the processor time: the compiler's own code is not run long enough to be worth optimising.
            "MAVEN_OPTS": "-XX:TieredStopAtLevel=1",
        }
        maven = ("mvn", "--batch-mode", "--quiet", "--strict-checksums")
        copy_pinned(folder, "pom.xml")
        run(*maven, "dependency:copy", cwd=folder, environment=environment)
        for plugin in plugins.iterdir():
            plugin.chmod(0o755)
        generate("java", descriptor_set, folder, environment)
        run(*maven, "compile", cwd=folder, environment=environment)
        shutil.move(folder / "target/classes", kept)
