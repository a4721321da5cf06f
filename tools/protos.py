"""Work on the contracts: generate the stubs, check that they are fresh, lint, find breaking changes.

    protos.py generate    write libs/contracts/groundline/v1 from protos/, and the stubs of libs/weaviate
    protos.py check       fail when the committed stubs are not what generate writes
    protos.py lint        buf lint, and every RPC declares its idempotency_level
    protos.py breaking    buf breaking (WIRE_JSON) against the last release tag; before the first release,
                          against the last commit with a trailer that says why it breaks the contract
                          ("Contract-Break: …")
    protos.py image FILE  write the descriptor set of protos/ with its imports, for other generators

The google/api and google/rpc protos come from the googleapis-common-protos package.
"""

import filecmp
import subprocess
import sys
import tempfile
from importlib import metadata, resources
from pathlib import Path
from typing import Final

from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from project import ROOT

STUBS: Final = ROOT / "libs/contracts/groundline/v1"
# Protos of Weaviate: the server's contract, so neither linted nor compared.
WIRE: Final = ROOT / "libs/weaviate"
WIRE_STUBS: Final = WIRE / "groundline_weaviate"
BIN: Final = Path(sys.executable).parent


def run_protoc(protos: Path, *outputs: str, only: str = "*.proto") -> None:
    """Run protoc on the protos below `protos` that match `only`; raise SystemExit on its error."""
    well_known = resources.files("grpc_tools") / "_proto"
    googleapis = metadata.distribution("googleapis-common-protos").locate_file(".")
    files = sorted(str(path.relative_to(protos)) for path in protos.rglob(only))
    arguments = ["protoc", f"-I{protos}", f"-I{well_known}", f"-I{googleapis}", *outputs, *files]
    if protoc.main(arguments) != 0:
        raise SystemExit(f"protoc failed on {protos}")


def generate(protos: Path, target: Path, services_in: str) -> None:
    """Write messages, services and their typed stubs below `target`."""
    plugins = [f"--plugin=protoc-gen-{name}={BIN / f'protoc-gen-{name}'}" for name in ("mypy", "mypy_grpc")]
    messages = [f"--python_out={target}", f"--mypy_out=quiet:{target}"]
    services = [f"--grpc_python_out={target}", f"--mypy_grpc_out=quiet:{target}"]
    run_protoc(protos, *plugins, *messages)
    run_protoc(protos, *plugins, *services, only=services_in)


def generate_all(contracts: Path, wire: Path) -> None:
    """Write the stubs of the contracts below one folder, and those of Weaviate's API below the other."""
    generate(ROOT / "protos", contracts, "*_service.proto")
    generate(WIRE, wire, "*.proto")


def image(protos: Path, path: Path) -> Path:
    """Write the descriptor set of `protos`, with imports and comments, to `path`."""
    run_protoc(protos, "--include_imports", "--include_source_info", f"--descriptor_set_out={path}")
    return path


def write_stubs() -> int:
    for folder in (STUBS, WIRE_STUBS):
        for stale in folder.glob("*_pb2*"):
            stale.unlink()
    generate_all(ROOT / "libs/contracts", WIRE)
    return 0


def differing(fresh: Path, committed: Path) -> set[str]:
    """Return the names of stubs that differ between the folders, or are in one of them only."""
    names = {path.name for folder in (fresh, committed) for path in folder.glob("*_pb2*")}
    _, changed, missing = filecmp.cmpfiles(fresh, committed, names, shallow=False)
    return {*changed, *missing}


def check_stubs() -> int:
    with tempfile.TemporaryDirectory() as fresh:
        generate_all(Path(fresh), Path(fresh))
        stale = sorted(
            name
            for folder, stubs in (("groundline/v1", STUBS), ("groundline_weaviate", WIRE_STUBS))
            for name in differing(Path(fresh) / folder, stubs)
        )
    if stale:
        print(f"stubs are stale, run make generate: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


def rpcs_without_idempotency(descriptors: bytes) -> list[str]:
    """Return the names of the groundline RPCs that do not declare an idempotency_level."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    return [
        f"{service.name}.{method.name}"
        for file in files
        if file.package.startswith("groundline.")
        for service in file.service
        for method in service.method
        if not method.options.HasField("idempotency_level")
    ]


def lint() -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = image(ROOT / "protos", Path(folder) / "image.binpb")
        undeclared = rpcs_without_idempotency(path.read_bytes())
        for name in undeclared:
            print(f"{name}: no idempotency_level", file=sys.stderr)
        return buf("lint", str(path), "--config", str(ROOT / "buf.yaml")) or len(undeclared) > 0


def breaking() -> int:
    base = base_revision()
    if base is None:
        print(
            "proto-breaking: no release and no commit with a Contract-Break trailer, nothing to compare with"
        )
        return 0
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", base, "protos"], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        old = image(Path(folder) / "protos", Path(folder) / "old.binpb")
        new = image(ROOT / "protos", Path(folder) / "new.binpb")
        print(f"proto-breaking: against {base}")
        return buf("breaking", str(new), "--against", str(old), "--config", str(ROOT / "buf.yaml"))


def base_revision() -> str | None:
    """Return the last release tag; before there is one, the last commit with the trailer, as of this
    revision."""
    tag = git("describe", "--tags", "--abbrev=0", "--match", "v*")
    return tag or git("log", "-1", "--format=%H", "--grep=^Contract-Break: ", "HEAD") or None


def git(*arguments: str) -> str:
    """Return the output of a git command; "" if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def buf(*arguments: str) -> int:
    return subprocess.run([str(BIN / "buf"), *arguments], cwd=ROOT, check=False).returncode


COMMANDS: Final = {"generate": write_stubs, "check": check_stubs, "lint": lint, "breaking": breaking}


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "image":
        image(ROOT / "protos", Path(sys.argv[2]))
        return 0
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    return COMMANDS[sys.argv[1]]()


if __name__ == "__main__":
    raise SystemExit(main())
