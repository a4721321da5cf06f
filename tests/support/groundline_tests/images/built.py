"""Images built by `make images` with buildah, and run as a container runtime runs them."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from groundline_tests.images.base_image import make_base
from service_requirements import ROOT

BASE: Final = "localhost/base:test"
VERSION: Final = "9.9.9"

# Restrictions of a pod's container: its own process table, a read-only root, and a small /tmp.
ISOLATE: Final = """
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$1/tmp"
root=$1
shift
exec "$@"
"""


class Images:
    """A store of images of its own below a folder."""

    def __init__(self, folder: Path, *, debian: bool) -> None:
        self.folder = folder
        configuration = folder / "storage.conf"
        self._environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(configuration),
            "BUILDAH_ISOLATION": "chroot",
        }
        # vfs works everywhere, but copies every layer; overlay does not work on an overlay file system.
        for driver in ("overlay", "vfs"):
            configuration.write_text(
                f'[storage]\ndriver = "{driver}"\n'
                f'graphroot = "{folder}/{driver}"\nrunroot = "{folder}/run-{driver}"\n'
            )
            probe = subprocess.run(
                ["buildah", "info"], check=False, capture_output=True, env=self._environment
            )
            if probe.returncode == 0:
                break
        make_base(folder, BASE, buildah=self.buildah, debian=debian)

    def buildah(self, *arguments: str) -> str:
        """Run buildah and return its output."""
        return self._run("buildah", *arguments).strip()

    def build(self, service: str) -> str:
        """Build the image of a service by `make images`; return its name."""
        self._run(
            *("make", "--silent", "--directory", str(ROOT), "images", "IMAGE_BUILDER=buildah"),
            *(f"SERVICE={service}", f"VERSION={VERSION}", "IMAGE_PREFIX=localhost/"),
            f"PYTHON_IMAGE={BASE}",
        )
        return f"localhost/{service}:{VERSION}"

    def configuration(self, image: str) -> dict[str, Any]:
        """Return the image's configuration."""
        found: dict[str, Any] = json.loads(self.buildah("inspect", "--type", "image", image))["OCIv1"][
            "config"
        ]
        return found

    def root(self, image: str) -> Path:
        """Return a directory with the image's files, for a container."""
        return Path(self.buildah("mount", self.buildah("from", "--pull-never", image)))

    def close(self) -> None:
        self.buildah("rm", "--all")
        # The overlay driver leaves its own directory mounted.
        for path in self.folder.glob("overlay/overlay"):
            if path.is_mount():
                self._run("umount", str(path))
        # These are gigabytes, which pytest would keep.
        shutil.rmtree(self.folder)

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=self._environment)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout


@dataclass(slots=True)
class Container:
    """A running container."""

    runtime: asyncio.subprocess.Process
    log: Path

    @property
    def first(self) -> psutil.Process:
        """Process 1, as the machine sees it."""
        [process] = psutil.Process(self.runtime.pid).children()
        return process

    async def stopped(self) -> int:
        """Send SIGTERM to process 1, and return the container's exit code."""
        self.first.terminate()
        return await self.runtime.wait()


@asynccontextmanager
async def running(
    images: Images, image: str, log: Path, environment: Mapping[str, str]
) -> AsyncIterator[Container]:
    """Run a container with the image's entry point, environment and user, a read-only root and no privileges.

    It shares the machine's network.
    """
    configuration = await asyncio.to_thread(images.configuration, image)
    root = await asyncio.to_thread(images.root, image)
    user, _, group = configuration["User"].partition(":")
    variables = dict(entry.split("=", 1) for entry in configuration["Env"]) | dict(environment)
    with log.open("wb") as output:
        runtime = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"),
            *("sh", "-ec", ISOLATE, "sh", root, "setpriv", "--no-new-privs"),
            *("env", "--ignore-environment", *(f"{name}={value}" for name, value in variables.items())),
            *(shutil.which("chroot") or "chroot", f"--userspec={user}:{group}", "--groups=", root),
            *configuration["Entrypoint"],
            stdout=output,
            stderr=output,
        )
    try:
        yield Container(runtime, log)
    finally:
        if runtime.returncode is None:
            runtime.kill()
            await runtime.wait()


def installed(root: Path) -> set[str]:
    """Return the names of the distributions in an image."""
    folders = (root / f"app/lib/python3.{sys.version_info.minor}/site-packages").glob("*.dist-info")
    return {folder.name.partition("-")[0].replace("_", "-").replace(".", "-").lower() for folder in folders}


def size_mib(root: Path) -> int:
    """Return the size of an image's files."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) // 2**20
