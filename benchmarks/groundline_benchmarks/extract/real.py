"""Real files that nobody here wrote, and what reading them must give.

`real.toml` says of each file which package holds it, its SHA-256, and what was found in it by eye and with
other tools than the readers measured here.
"""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

type Text = Annotated[str, Field(min_length=1)]

_MANIFEST: Final = "real.toml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Package(_Strict):
    """A package at one version, as its registry's client takes it."""

    debian: str = Field("", pattern=r"^$|^[a-z0-9.+-]+=\S+$")
    pypi: str = Field("", pattern=r"^$|^[A-Za-z0-9._-]+==\S+$")
    maven: str = Field("", pattern=r"^$|^[^:]+:[^:]+:[^:]+:jar(:[^:]+)?$")

    @model_validator(mode="after")
    def _one_registry(self) -> Self:
        if [bool(self.debian), bool(self.pypi), bool(self.maven)].count(True) != 1:
            raise ValueError("a package is of exactly one registry")
        return self

    def __str__(self) -> str:
        return self.debian or self.pypi or self.maven


class Expected(_Strict):
    """Expectations of a file.

    phrases: in this order, other words between them. absent: found nowhere. headings: titles. rows: cells
    that follow each other in one row. cells: a cell of a row, the name of a column, and the value where they
    meet. pages: phrases by page, from 1. members: phrases of the files within. refused: reason for which it
    is not read.
    """

    phrases: Sequence[Text] = ()
    absent: Sequence[Text] = ()
    headings: Sequence[Text] = ()
    rows: Sequence[Annotated[Sequence[str], Field(min_length=2)]] = ()
    cells: Sequence[tuple[Text, Text, Text]] = ()
    pages: Mapping[Annotated[str, Field(pattern=r"^[1-9]\d*$")], Sequence[Text]] = {}
    members: Mapping[Text, Sequence[Text]] = {}
    refused: str = ""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.phrases or self.rows or self.cells or self.pages or self.members or self.refused):
            raise ValueError("something must be found in a file, or it must be refused")
        return self


class RealFile(_Strict):
    """A file within a package. name: as it is handed in, if not by the last part of its path. gunzip: the
    package holds it compressed. mime_type: given with it."""

    package: str
    path: Text
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    format: Text
    name: str = ""
    gunzip: bool = False
    mime_type: str = ""
    expected: Expected

    @property
    def uri(self) -> str:
        name = self.name or self.path.rpartition("/")[2]
        return name.removesuffix(".gz") if self.gunzip else name

    def place(self, folder: Path) -> Path:
        """Return where the file is in the folder of fetched files."""
        return folder / "files" / f"{self.sha256[:12]}-{self.uri}"


class Manifest(_Strict):
    packages: Mapping[str, Package]
    files: Sequence[RealFile]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if unknown := {one.package for one in self.files} ^ set(self.packages):
            raise ValueError(f"packages without files, or not named: {', '.join(sorted(unknown))}")
        if len({one.sha256 for one in self.files}) < len(self.files):
            raise ValueError("a file stands twice")
        return self


def load_manifest() -> Manifest:
    """Return the files of `real.toml`, checked for their form."""
    found: dict[str, Any] = tomllib.loads((files(__package__) / _MANIFEST).read_text("utf-8"))
    return Manifest.model_validate(found)
