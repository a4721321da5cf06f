"""Stubs in another language, made from the contract as docs/how-to/clients.md says."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from service_requirements import ROOT

PINNED = ROOT / "tools/stubs"
"""A Go module with the plugins, and what their stubs import."""


def run(*command: str | Path, cwd: Path, environment: Mapping[str, str] = os.environ) -> None:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def test_go_stubs_compile(tmp_path: Path) -> None:
    # Neither another toolchain nor another workspace than what is here.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    plugins = tmp_path / "bin"
    run("go", "build", "-mod=readonly", "-o", f"{plugins}/", "tool", cwd=PINNED, environment=environment)
    run(sys.executable, ROOT / "tools/protos.py", "image", tmp_path / "groundline.binpb", cwd=ROOT)
    template = ROOT / "clients/stubs/buf.gen.go.yaml"
    run(
        *(Path(sys.executable).parent / "buf", "generate", "groundline.binpb"),
        *("--template", template, "--path", "groundline/v1"),
        cwd=tmp_path,
        environment={**environment, "PATH": f"{plugins}{os.pathsep}{os.environ['PATH']}"},
    )
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(PINNED / name, tmp_path / "go" / name)
    run("go", "build", "-mod=readonly", "./...", cwd=tmp_path / "go", environment=environment)
    assert (tmp_path / "go/groundlinev1/coordinator_service_grpc.pb.go").exists()
