"""The gateway that a command calls, and the key for it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from groundline_cli.profiles import ProfileError, profile

# Takes 20 MB, which `groundline up` would keep as long as it runs.
if TYPE_CHECKING:
    from groundline_client import AsyncClient

READY_FILE: Final = Path(".groundline") / "ready.json"
"""Path of the file in which a suite that runs from this directory announces itself."""


class ConnectionSettingsError(Exception):
    """No gateway is known, or the settings are wrong; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A gateway's address, without a slash at its end, and the key to it."""

    gateway: str
    api_key: str = field(repr=False)

    def client(self) -> "AsyncClient":
        """Return a client of this gateway."""
        from groundline_client import AsyncClient

        return AsyncClient(self.gateway, self.api_key)


@dataclass(frozen=True, slots=True)
class OwnSuite:
    """A suite that runs from a directory."""

    connection: Connection
    database_url: str | None = field(repr=False)


def find_connection(
    gateway: str | None,
    api_key: str | None,
    *,
    directory: Path,
    config_file: Path,
    profile_name: str | None = None,
) -> Connection:
    """Return the connection: what is set, or else the named profile, or else the suite that runs from
    `directory`, or else the default profile; a key that is set replaces the key of any of them.

    Raises ConnectionSettingsError.
    """
    if gateway:
        if not api_key:
            raise ConnectionSettingsError("set GROUNDLINE_API_KEY, or pass --api-key")
        return _checked(gateway, api_key)
    try:
        own = None if profile_name else own_suite(directory / READY_FILE)
        if own is not None:
            return Connection(own.connection.gateway, api_key) if api_key else own.connection
        found = profile(profile_name, config_file, api_key=api_key)
    except ProfileError as error:
        raise ConnectionSettingsError(str(error)) from error
    if found is None:
        raise ConnectionSettingsError(
            "no gateway is known: set GROUNDLINE_GATEWAY_URL and GROUNDLINE_API_KEY (or pass --gateway and "
            f"--api-key), write a profile into {config_file}, or start the suite in this directory with "
            "`groundline up`"
        )
    return _checked(*found)


def database_of(
    gateway: str | None, *, directory: Path, config_file: Path, profile_name: str | None = None
) -> str:
    """Return the URL of the database behind a gateway: the one that is set, or of the named profile, or else
    of the suite that runs from `directory`.

    Only that suite's database is known. Raises ConnectionSettingsError for another gateway.
    """
    try:
        found = profile(profile_name, config_file, api_key="not needed") if profile_name else None
    except ProfileError as error:
        raise ConnectionSettingsError(str(error)) from error
    named = gateway or (found and found[0])
    own = own_suite(directory / READY_FILE)
    if named and (own is None or not _same(_checked(named, "").gateway, own.connection.gateway)):
        raise ConnectionSettingsError(
            f"the database of {named} is not known, since that suite does not run from this directory: set "
            "GROUNDLINE_DATABASE_URL (or pass --database-url)"
        )
    if own is None or own.database_url is None:
        raise ConnectionSettingsError(
            "no database is known: set GROUNDLINE_DATABASE_URL (or pass --database-url), or start the suite "
            "in this directory with `groundline up`"
        )
    return own.database_url


def own_suite(ready_file: Path) -> OwnSuite | None:
    """Read a ready file; None if it does not exist. Raises ConnectionSettingsError."""
    try:
        ready = json.loads(ready_file.read_text(encoding="utf-8"))
        gateway, api_key = ready["gateway"], ready["api_key"]
        database_url = ready.get("database_url")
        if not (
            isinstance(gateway, str) and isinstance(api_key, str) and isinstance(database_url, str | None)
        ):
            raise TypeError("gateway, api_key and database_url must be texts")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConnectionSettingsError(f"{ready_file} cannot be read as a ready file: {error}") from error
    connection = _checked(gateway, api_key)
    # The file may have come with the directory, from anyone: it must not send documents elsewhere.
    if not _is_loopback(connection.gateway):
        raise ConnectionSettingsError(f"{ready_file} names a gateway on another machine: set it explicitly")
    return OwnSuite(connection, database_url)


def _is_loopback(gateway: str) -> bool:
    from groundline_client import is_loopback

    return is_loopback(gateway)


def _same(gateway: str, own: str) -> bool:
    """Tell whether an address is the own suite's, which listens on this machine only."""
    return _is_loopback(gateway) and urlsplit(gateway).port == urlsplit(own).port


def _checked(gateway: str, api_key: str) -> Connection:
    try:
        parts = urlsplit(gateway)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        # Not quoted: what was pasted by mistake may hold a key.
        raise ConnectionSettingsError("the gateway must be a URL like http://127.0.0.1:8080")
    if not api_key.isascii() or not api_key.isprintable():
        raise ConnectionSettingsError("the API key holds characters that a key cannot have")
    return Connection(gateway.rstrip("/"), api_key)
