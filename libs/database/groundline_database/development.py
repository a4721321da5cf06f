"""Databases of the development before the first release, whose migrations `0001_initial.sql` replaces.

A database that had all of them has the schema that `0001_initial.sql` makes, and is adopted by renumbering.
This module may go once nobody has such a database any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMIT: Final = "e18be48"
"""The last commit with these migrations."""


@dataclass(frozen=True, slots=True)
class Development:
    """A service's migrations before the first release: the checksums of the first and the last one."""

    first_checksum: str
    last_checksum: str


DEVELOPMENT: Final[Mapping[str, Development]] = {
    "ingestor": Development(
        "4b4c8b59ae95ca31bf6d89f43c1ed2b55ce28aa9d02ca9e7746cffa0445572f0",
        "30aac89b4dff23aa022e505ff2d7b92b224b591bd950b1a97513b3fb33a60b87",
    ),
    "coordinator": Development(
        "55366d3b269050e6a82edfc8bf8e25b0d1560d8c9310fcb854f784c7cd709db4",
        "ab5375c530932bee115e6d64e912802072852ea1f00040c6edff6cf52de03fbe",
    ),
}
"""Service → its migrations before the first release; the gateway's single one goes on."""
