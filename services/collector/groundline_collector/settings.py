"""Settings of the collector."""

from pathlib import Path
from typing import Annotated

from groundline_runtime.settings import ServiceSettings
from pydantic import Field
from pydantic_settings import SettingsConfigDict


class CollectorSettings(ServiceSettings):
    """Settings of the only service with a way out to the internet."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_COLLECTOR_")

    max_runs: Annotated[int, Field(ge=1, le=1000)] = 50
    """Maximum crawls and runs of sources at a time, each in a thread of its own; others are put off."""

    memory_bytes: Annotated[int, Field(ge=256 * 1024**2, le=64 * 1024**3)] = 2 * 1024**3
    """Address space of the process. A run that would take more fails, and the others go on."""

    reader_memory_bytes: Annotated[int, Field(ge=256 * 1024**2, le=64 * 1024**3)] = 1024**3
    """Address space of each of at most three processes that read pages, sitemaps and feeds, of one collection
    each; they are started when they are first needed."""

    private_addresses: bool = False
    """Whether collections may allow their crawls, sources and webhooks private, loopback, link-local and
    other addresses that are not the internet's. Whoever may write such a collection reaches what this process
    reaches."""

    source_directories: tuple[Path, ...] = ()
    """Directories that sources may read, with all below them, as a JSON list of absolute paths. Whoever
    administers a collection may bring them in. Empty: no source reads a directory."""

    secrets_directory: Path | None = None
    """Folder of the secrets that sources and webhooks name: the file COLLECTION/NAME holds one that those of
    that collection may use. Unset: no secrets."""

    user_agent: Annotated[str, Field(pattern=r"^[A-Za-z0-9][ -~]{0,199}$")] = "groundline"
    """Name by which crawls introduce themselves to web servers and look for rules in robots.txt."""

    spool_directory: Path | None = None
    """Folder for the commits of git repositories while they are read. Unset: the system's place for
    temporary files."""
