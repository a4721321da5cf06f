"""Results of a run that is under way, in a file that grows with each: a run goes on where it was stopped."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any


class PartFile:
    """Rows of JSON below a line that names the run. A file of another run begins anew."""

    def __init__(self, path: Path | None, key: str) -> None:
        self._path = path
        self._head = json.dumps({"key": key})
        self.rows: list[dict[str, Any]] = []
        """Rows of earlier runs, then those that were added. Without a path they are in memory alone."""
        if path is None:
            return
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        earlier = lines[1:] if lines and lines[0] == self._head else []
        path.write_text(f"{self._head}\n", encoding="utf-8")
        for line in earlier:
            # The last one may have been cut off.
            with suppress(ValueError):
                self.add(json.loads(line))

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row."""
        self.rows.append(row)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(row)}\n")

    def remove(self) -> None:
        """Delete the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def part_path(output: Path | None) -> Path | None:
    """Return the path of the part file beside an output."""
    return output and output.with_name(f"{output.name}.part")
