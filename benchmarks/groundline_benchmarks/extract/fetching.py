"""Fetching of the real files, by the ordinary client of each package's registry."""

import gzip
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from groundline_benchmarks.extract.real import Manifest, Package, RealFile
from groundline_benchmarks.measuring.running import Report


def is_there(file: RealFile, folder: Path) -> bool:
    """Return whether the file is in the folder, byte for byte."""
    place = file.place(folder)
    return place.is_file() and hashlib.sha256(place.read_bytes()).hexdigest() == file.sha256


def fetch(manifest: Manifest, folder: Path, report: Report) -> Sequence[str]:
    """Put what is not yet there into the folder; return what could not be had, and why."""
    failures = []
    folder = folder.absolute()
    (folder / "files").mkdir(parents=True, exist_ok=True)
    for name, package in manifest.packages.items():
        missing = [one for one in manifest.files if one.package == name and not is_there(one, folder)]
        if not missing:
            continue
        report(f"fetching {package}")
        with tempfile.TemporaryDirectory(dir=folder) as directory:
            try:
                archive = _download(package, Path(directory))
                contents = dict(_contents(archive, {one.path for one in missing}))
            except (OSError, subprocess.SubprocessError, tarfile.TarError, zipfile.BadZipFile) as error:
                failures += [f"{one.path}: {package} cannot be had: {_why(error)}" for one in missing]
                continue
        failures += [failure for one in missing if (failure := _keep(one, contents, folder))]
    return failures


def _keep(file: RealFile, contents: dict[str, bytes], folder: Path) -> str:
    """Write the file, and return why it cannot be used, or ""."""
    content = contents.get(file.path)
    if content is None:
        return f"{file.path}: not in {file.package}"
    if file.gunzip:
        content = gzip.decompress(content)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        return f"{file.path}: another file than the one that was looked at"
    file.place(folder).write_bytes(content)
    return ""


def _download(package: Package, directory: Path) -> Path:
    if package.debian:
        command = ["apt-get", "download", "-q", package.debian]
    elif package.pypi:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        command += ["--no-binary", ":all:", package.pypi]
    else:
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={package.maven}", "-DoutputDirectory=."]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True)
    found = [path for path in directory.iterdir() if path.suffix in {".deb", ".gz", ".jar"}]
    if not found:
        raise FileNotFoundError("its client brought no archive")
    return found[0]


def _contents(archive: Path, paths: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of those members that are asked for."""
    if archive.suffix == ".jar":
        with zipfile.ZipFile(archive) as jar:
            for path in paths & set(jar.namelist()):
                yield path, jar.read(path)
        return
    tar = archive
    if archive.suffix == ".deb":
        tar = archive.with_suffix(".tar")
        with tar.open("wb") as file:
            command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
            subprocess.run(command, check=True, stdout=file)
    with tarfile.open(tar) as members:
        for member in members:
            path = member.name.removeprefix("./")
            if path in paths and (content := members.extractfile(member)):
                yield path, content.read()


def _why(error: Exception) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    lines = str(said or error).strip().splitlines() or [type(error).__name__]
    return lines[-1]
