"""Gateways by name, from the configuration file."""

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

CONFIG_FILE: Final = Path(click.get_app_dir("groundline")) / "config.toml"
"""$XDG_CONFIG_HOME/groundline/config.toml, or where the platform keeps such files."""

type Profile = tuple[str, str]
"""Address of a gateway, and the key to it."""

_FIELDS: Final = {"gateway", "api_key_file", "api_key_env"}


class ProfileError(Exception):
    """The configuration file, or a profile in it, cannot be used; the message says why."""


def profile(name: str | None, file: Path, *, api_key: str | None = None) -> Profile | None:
    """Return the profile of that name, or the file's default one; None if there is no default.

    Keys are not in the file: a key is given, or in another file that only its owner may read, or in an
    environment variable. Raises ProfileError.
    """
    found = _read(file)
    chosen = name or found.get("profile")
    if chosen is None:
        return None
    profiles = found.get("profiles", {})
    if not isinstance(profiles, Mapping) or not isinstance(chosen, str):
        raise ProfileError(f"{file}: profile must be a text, and profiles tables")
    one = profiles.get(chosen)
    if not isinstance(one, Mapping):
        known = ", ".join(sorted(profiles)) or "none"
        raise ProfileError(f"there is no profile {chosen!r} in {file}, but: {known}")
    where = f"{file}: profile {chosen}"
    if unknown := sorted(set(one) - _FIELDS):
        raise ProfileError(f"{where}: {', '.join(unknown)} is not among {', '.join(sorted(_FIELDS))}")
    if not all(isinstance(value, str) for value in one.values()) or "gateway" not in one:
        raise ProfileError(f"{where}: gateway, api_key_file and api_key_env must be texts")
    return one["gateway"], api_key or _key(one, where, file.parent)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ProfileError(f"{file} cannot be read: {error}") from error


def _key(one: Mapping[str, str], where: str, directory: Path) -> str:
    match one:
        case {"api_key_file": name, "api_key_env": _}:
            raise ProfileError(f"{where}: api_key_file and api_key_env exclude each other")
        case {"api_key_file": name}:
            return _secret(directory / Path(name).expanduser(), where)
        case {"api_key_env": name}:
            if key := os.environ.get(name):
                return key
            raise ProfileError(f"{where}: {name} is not set")
    raise ProfileError(f"{where}: api_key_file or api_key_env must say where the key is")


def _secret(file: Path, where: str) -> str:
    try:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise ProfileError(f"{where}: others may read {file}: chmod 600 {file}")
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ProfileError(f"{where}: {file} cannot be read: {error}") from error
