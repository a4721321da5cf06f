"""Settings of a service process: environment first, then a dotenv file, read once at start.

A field `database_url` of a class with `env_prefix="GROUNDLINE_RETRIEVER_"` is read from
`GROUNDLINE_RETRIEVER_DATABASE_URL`, then from `GROUNDLINE_DATABASE_URL`. A setting within a group has two
underscores before its name: `GROUNDLINE_EMBEDDING__MODEL_DIR`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, cast

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as UnreadableSettingError

SHARED_PREFIX: Final = "GROUNDLINE_"
MAX_SECONDS: Final = 3600

Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]


class SettingsError(Exception):
    """A setting is missing or wrong. The text is one line, names the variables, and holds no value."""


class Settings(BaseSettings):
    """Names and sources of settings; a process subclasses it with its own `env_prefix` and fields."""

    model_config = SettingsConfigDict(
        env_prefix=SHARED_PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def service_name(cls) -> str:
        """Return `groundline-retriever` for the prefix `GROUNDLINE_RETRIEVER_`."""
        return cls._own_prefix().rstrip("_").replace("_", "-").lower()

    @classmethod
    def variable_names(cls, field: str) -> tuple[str, ...]:
        """Return the environment variables that a field is read from; the first that is set wins."""
        return tuple(dict.fromkeys(prefix + field.upper() for prefix in (cls._own_prefix(), SHARED_PREFIX)))

    @classmethod
    def _own_prefix(cls) -> str:
        return cls.model_config.get("env_prefix", SHARED_PREFIX)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        env_file = cast(DotEnvSettingsSource, dotenv_settings).env_file
        return (
            init_settings,
            env_settings,
            EnvSettingsSource(settings_cls, env_prefix=SHARED_PREFIX),
            dotenv_settings,
            DotEnvSettingsSource(settings_cls, env_file=env_file, env_prefix=SHARED_PREFIX),
        )


class ServiceSettings(Settings):
    """Settings of every service; a service subclasses it with its own `env_prefix` and fields."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 or [::] in a container."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port to listen on; 0 takes a free one, which the `service_started` event names."""

    reuse_port: bool = False
    """Whether other processes of the same user may bind the port too; so `groundline up` reserves it."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum severity that is logged."""

    log_format: Literal["auto", "json", "console"] = "auto"
    """`json` lines or coloured `console` text; `auto` is console on a terminal."""

    otlp_endpoint: str | None = None
    """OTLP collector (gRPC), such as http://collector:4317; https:// uses TLS. Unset: no telemetry is
    sent."""

    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Port of `host` on which Prometheus reads metrics without authentication, at /metrics; 0 takes a free
    one, which the `metrics_served` event names. Unset: none."""

    drain_seconds: SecondsOrZero = 3.0
    """Time between NOT_SERVING and the closing of the port, for load balancers to notice."""

    shutdown_grace_seconds: SecondsOrZero = 20.0
    """Maximum time for running requests to finish after that; the rest is cancelled."""

    default_timeout_seconds: Seconds = 60.0
    """Deadline of a request whose caller set none."""

    max_message_bytes: Annotated[int, Field(ge=1024, le=1024**3)] = 32 * 1024**2
    """Maximum size of a request and of a response, in bytes."""

    health_interval_seconds: Seconds = 1.5
    """Maximum age of what a health check says about the dependencies; older, they are checked before it is
    answered. While nobody asks, they are checked 3.5 times less often."""

    health_timeout_seconds: Seconds = 1.5
    """Maximum time of one check, after which its dependency counts as down."""


def load_settings[S: Settings](settings_type: type[S], file: Path | None = None) -> S:
    """Read the environment and, if given, a dotenv file. Raises SettingsError naming every mistake."""
    if file is not None and not file.is_file():
        raise SettingsError(f"settings file {file}: no such file")
    try:
        return settings_type(_env_file=file)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise SettingsError(
            "; ".join(_describe(settings_type, problem["loc"], problem["msg"]) for problem in problems)
        ) from None
    except UnreadableSettingError as error:
        # pydantic-settings' text names the field and the source, not the value.
        raise SettingsError(str(error)) from None
    except UnicodeDecodeError:
        raise SettingsError(f"settings file {file}: not UTF-8 text") from None


def settings_from_command_line[S: Settings](settings_type: type[S], argv: Sequence[str] | None = None) -> S:
    """Read settings for a process started with `[--settings FILE]`.

    A wrong setting ends the process with one line on stderr and exit code 2.
    """
    parser = argparse.ArgumentParser(prog=settings_type.service_name())
    parser.add_argument("--settings", type=Path, metavar="FILE", help="read settings from a dotenv file")
    options = parser.parse_args(argv)
    try:
        return load_settings(settings_type, options.settings)
    except SettingsError as error:
        print(f"{settings_type.service_name()}: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _describe(settings_type: type[Settings], location: tuple[int | str, ...], problem: str) -> str:
    if not location:
        return problem
    field, *inner = location
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner)
    own, *shared = (name + where for name in settings_type.variable_names(str(field)))
    alternatives = f" (or {shared[0]})" if shared else ""
    return f"{own}{alternatives}: {problem[0].lower()}{problem[1:]}"
