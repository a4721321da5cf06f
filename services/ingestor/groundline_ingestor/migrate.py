"""Migration of the ingestor's tables, and of the extensions that the whole suite uses."""

from collections.abc import Mapping
from typing import Final

from groundline_database import Connection, migrations_of
from groundline_database import migrate as migrate_schema
from groundline_lexical import LexicalIndexError, detect_lexical_index
from groundline_runtime.errors import FailedPreconditionError

from groundline_ingestor.settings import MigrationSettings

SCHEMA: Final[Mapping[str, int]] = {"ingestor": len(migrations_of("ingestor"))}
"""Version that this release needs."""


async def migrate(settings: MigrationSettings) -> None:
    """Bring a database up to date. Raises FailedPreconditionError, UnavailableError."""

    async def create_lexical_extension(connection: Connection) -> None:
        try:
            index = await detect_lexical_index(connection, settings.lexical_backend)
            await index.create_extension(connection)
        except LexicalIndexError as error:
            raise FailedPreconditionError("LEXICAL_INDEX_UNAVAILABLE", str(error)) from error

    await migrate_schema(settings, "ingestor", prepare=create_lexical_extension)
