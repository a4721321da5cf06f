"""Render Envoy's configuration from the environment, and run Envoy with it if asked to."""

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from groundline_database import migrate
from groundline_runtime.errors import GroundlineError
from groundline_runtime.settings import SettingsError, load_settings
from groundline_runtime.telemetry.logs import configure_logs

from groundline_gateway.envoy.bootstrap import arguments, render
from groundline_gateway.envoy.files import write
from groundline_gateway.following import configured, follows
from groundline_gateway.keys import KeyDatabaseSettings
from groundline_gateway.settings import GatewaySettings


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command. A wrong setting ends the process with one line on stderr and exit code 2."""
    parser = argparse.ArgumentParser(prog="groundline-gateway", description=__doc__)
    parser.add_argument(
        "command",
        nargs="?",
        choices=("run", "migrate"),
        default="run",
        help="run (the default), or bring the table of API keys up to date and end",
    )
    parser.add_argument("--settings", type=Path, metavar="FILE", help="read settings from a dotenv file")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write; default: standard output"
    )
    parser.add_argument(
        "--exec", dest="envoy", metavar="ENVOY", help="run this Envoy program; needs --output"
    )
    options = parser.parse_args(argv)
    if options.envoy and options.output is None:
        parser.error("--exec needs --output")
    try:
        if options.command == "migrate":
            _migrate(load_settings(KeyDatabaseSettings, options.settings))
        else:
            _run(load_settings(GatewaySettings, options.settings), options.output, options.envoy)
    except SettingsError as error:
        print(f"groundline-gateway: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _migrate(settings: KeyDatabaseSettings) -> None:
    try:
        asyncio.run(migrate(settings, "gateway"))
    except GroundlineError as error:
        print(f"groundline-gateway: {error.message}", file=sys.stderr)
        raise SystemExit(1) from None


def _run(settings: GatewaySettings, output: Path | None, envoy: str | None) -> None:
    if output is None:
        json.dump(render(settings), sys.stdout, indent=1)
    elif envoy is None:
        write(settings, output)
    elif not follows(settings):
        write(settings, output)
        os.execvp(envoy, [envoy, *arguments(settings, output)])  # noqa: S606
    else:
        configure_logs("groundline-gateway", level="info", log_format="json")
        raise SystemExit(asyncio.run(_supervise(settings, output, envoy)))


async def _supervise(settings: GatewaySettings, path: Path, envoy: str) -> int:
    """Run Envoy and follow the keys; return Envoy's exit code, as a shell counts it."""
    task = asyncio.current_task()
    assert task is not None
    process: asyncio.subprocess.Process | None = None

    def stop() -> None:
        if process is None:
            task.cancel()
        elif process.returncode is None:
            process.send_signal(signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        async with configured(settings, path):
            process = await asyncio.create_subprocess_exec(*_tied(), envoy, *arguments(settings, path))
            code = await process.wait()
    except asyncio.CancelledError:
        code = -signal.SIGTERM
    return code if code >= 0 else 128 - code


def _tied() -> Sequence[str]:
    """Return a command prefix by which the kernel ends a program when this process ends; only on Linux."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL", "--"]


if __name__ == "__main__":
    main()
