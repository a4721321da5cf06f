"""A base image made of this machine's own Python and tools, for use without a registry of images."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

TOOLS: Final = ("sh", "mkdir", "ln", "grep", "sed", "cat", "rm", "env")
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
GLIBC_PARTS: Final = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2")
LEFT_OUT: Final = (
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "*.opt-?.pyc",
    "site-packages",
    "config-*",
    "*.a",
    "_tkinter*",
)


type Buildah = Callable[..., str]


def make_base(folder: Path, name: str, *, buildah: Buildah, debian: bool) -> None:
    """Commit the image `name`: this machine's Python on a Debian system, or else on the fewest files.

    Debian, of this machine's release by debootstrap, is for an image that installs packages of it.
    """
    root = folder / "root"
    if debian:
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        system = ["debootstrap", "--variant=minbase", "--include=ca-certificates", release, str(root)]
        done = subprocess.run(system, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        for directory in ("dev", "proc", "tmp"):
            (root / directory).mkdir(parents=True)
    prefix = Path(sys.base_prefix)
    python = prefix / "bin" / f"python3.{sys.version_info.minor}"
    shutil.copytree(
        prefix / "lib" / python.name,
        root / "usr/local/lib" / python.name,
        symlinks=True,
        ignore=shutil.ignore_patterns(*LEFT_OUT),
    )
    (root / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy2(python, root / "usr/local/bin/python")
    for library in prefix.glob("lib/libpython*.so*"):
        shutil.copy2(library, root / "usr/local/lib")
    tools = [] if debian else [Path(os.path.realpath(shutil.which(tool) or tool)) for tool in TOOLS]
    for tool, path in zip(TOOLS, tools, strict=False):
        copy(path, root, Path("/bin") / tool)
    extensions = (root / "usr/local/lib" / python.name / "lib-dynload").glob("*.so")
    for library in sorted(libraries([*tools, python, *extensions, *compiled_wheels()])):
        if library.name.startswith("libc.so"):
            # Parts of the C library that wheels still name, though it has absorbed them.
            for part in GLIBC_PARTS:
                copy(library.with_name(part), root, library.with_name(part))
        if not library.is_relative_to(prefix):
            copy(library, root, library)
    # This machine's in any case: a build behind a proxy has to trust what the machine does.
    (root / CERTIFICATES.relative_to("/")).unlink(missing_ok=True)
    copy(CERTIFICATES, root, CERTIFICATES)
    pip = [f"--env={key}={value}" for key, value in os.environ.items() if key.startswith("PIP_")]
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, str(root), "/")
    paths = (
        "--env=PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "--env=LD_LIBRARY_PATH=/usr/local/lib",
    )
    buildah("config", *paths, f"--env=PIP_CERT={CERTIFICATES}", *pip, container)
    buildah("commit", "--quiet", container, name)
    shutil.rmtree(root)


def copy(source: Path, root: Path, target: Path) -> None:
    """Copy a file of this machine, unless the base has its own."""
    place = root / target.relative_to("/")
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(os.path.realpath(source), place)


def compiled_wheels() -> Iterator[Path]:
    """Yield extension modules of the wheels, which need the C++ library of the system."""
    import grpc

    yield from (Path(grpc.__file__).parent / "_cython").glob("*.so")


def libraries(programs: Iterable[Path]) -> set[Path]:
    """Return the libraries that the dynamic linker loads for them."""
    shown = subprocess.run(["ldd", *map(str, programs)], check=False, capture_output=True, text=True).stdout
    found = {word for line in shown.splitlines() for word in line.split() if word.startswith("/")}
    return {Path(word) for word in found if not word.endswith(":")}
