"""Renders Envoy's configuration from the environment, and starts Envoy with it where asked to."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from groundline_runtime.settings import SettingsError, load_settings

from groundline_gateway.config import arguments, render, write
from groundline_gateway.settings import GatewaySettings


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point. A wrong setting ends the process with one line on stderr and exit code 2."""
    parser = argparse.ArgumentParser(prog="groundline-gateway", description=__doc__)
    parser.add_argument("--settings", type=Path, metavar="FILE", help="read settings from a dotenv file")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write; default: standard output"
    )
    parser.add_argument(
        "--exec", dest="envoy", metavar="ENVOY", help="become this Envoy program; needs --output"
    )
    options = parser.parse_args(argv)
    if options.envoy and options.output is None:
        parser.error("--exec needs --output")
    try:
        settings = load_settings(GatewaySettings, options.settings)
    except SettingsError as error:
        print(f"groundline-gateway: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if options.output is None:
        json.dump(render(settings), sys.stdout, indent=1)
        return
    write(settings, options.output)
    if options.envoy:
        os.execvp(options.envoy, [options.envoy, *arguments(settings, options.output)])  # noqa: S606


if __name__ == "__main__":
    main()
