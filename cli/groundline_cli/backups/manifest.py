"""The manifest of a backup, and the check that the backup is whole."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from groundline_database import migrations_of

from groundline_cli.errors import CommandFailedError

DUMP: Final = "database"
"""Directory of pg_dump's files."""

ERASURES: Final = "erasures.json"
"""File of what was deleted for good before the backup, for a restore of an earlier one."""

SCHEMAS: Final = ("ingestor", "coordinator", "gateway")
"""Services that own tables, in the order of their migrations."""

FORMAT: Final = "groundline/backup/1"

_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Description of a backup."""

    format: str = FORMAT
    version: str
    """Version of the command that made it."""
    create_time: str
    """Time of the database's snapshot, as RFC 3339."""
    server: str
    """Version of PostgreSQL."""
    engine: str
    """Extension for keyword search."""
    schemas: Sequence[Mapping[str, Any]]
    """Rows of schema_migrations."""
    roles: Sequence[str]
    """Roles beside the owner that have rights on the tables, as the gateway's has."""
    has_shared_partitions: bool
    """Whether collections share a table, which not every engine can search."""
    tables: Mapping[str, int]
    """Rows of each table."""
    collections: Mapping[str, Mapping[str, int]]
    """Partition, and numbers of documents and chunks, of each collection."""
    files: Mapping[str, str]
    """SHA-256 of each file below the directory, in hexadecimal."""

    @classmethod
    def of(cls, backup: Path) -> Self:
        """Read a backup's manifest. Raises CommandFailedError if it has none, or one of a later release."""
        try:
            found = json.loads((backup / _MANIFEST).read_text(encoding="utf-8"))
            if found["format"] != FORMAT:
                raise CommandFailedError(
                    f"{backup} is of the format {found['format']!r}, which this release does not know"
                )
            return cls(**found)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CommandFailedError(f"{backup} is not a backup: {_MANIFEST} cannot be read") from error

    def write(self, backup: Path) -> None:
        (backup / _MANIFEST).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def require_whole(self, backup: Path) -> None:
        """Compare every file with its SHA-256. Raises CommandFailedError."""
        found = hashes_of(backup)
        wrong = [name for name, digest in self.files.items() if found.get(name) != digest]
        if wrong:
            raise CommandFailedError(
                f"{backup} is damaged, use another one: missing or changed are {', '.join(wrong[:5])}"
            )

    def require_known_schemas(self) -> None:
        """Raise CommandFailedError if a newer release made the backup than this one can run."""
        for row in self.schemas:
            known = len(migrations_of(row["service"])) if row["service"] in SCHEMAS else 0
            if row["version"] > known:
                raise CommandFailedError(
                    f"the backup is of the release {self.version}, whose schema of the {row['service']} is "
                    "newer than this release knows: restore it with that release or a later one"
                )


def hashes_of(backup: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a backup's directory, without the manifest."""
    found = {}
    for path in sorted(backup.rglob("*")):
        if path.is_file() and path.name != _MANIFEST:
            with path.open("rb") as file:
                found[path.relative_to(backup).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
