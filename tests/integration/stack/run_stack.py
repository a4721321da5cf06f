"""`groundline up` with the real PostgreSQL and supervisor, and small programs for the rest.

`run_stack.py DATA_DIR GATEWAY_PORT READY_FILE [MIGRATE_SCRIPT]`
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from groundline_cli.stack.errors import StackError
from groundline_cli.stack.process import Command
from groundline_cli.stack.stack import Parts, StackOptions, run_until_stopped
from groundline_cli.stack.suite import GatewayMetrics, Service

HERE = Path(__file__).parent


def service(name: str) -> Service:
    grpc_name = Service(name).grpc_name
    return Service(name, argv=(sys.executable, "-m", "stand_in_service", name, grpc_name))


@asynccontextmanager
async def gateway(
    environ: Mapping[str, str],
    config_path: Path,
    port: int,
    api_key: str,
    addresses: Mapping[str, str],
    database_url: str | None,
    metrics: GatewayMetrics | None,
) -> AsyncIterator[Command]:
    argv = (sys.executable, str(HERE / "stand_in_gateway.py"), str(port))
    yield Command(name="envoy", argv=argv, env=environ)


def main(data_dir: str, port: str, ready_file: str, migrate: str = "print('nothing to do')") -> None:
    options = StackOptions(
        data_dir=Path(data_dir),
        gateway_port=int(port),
        environ={**os.environ, "PYTHONPATH": str(HERE)},
        ready_files=(Path(ready_file),),
    )
    parts = Parts(
        migrations=[(sys.executable, "-c", migrate)],
        services=(service("ingestor"), service("coordinator")),
        gateway=gateway,
    )
    try:
        asyncio.run(run_until_stopped(options, print, lambda info: print("ready", flush=True), parts=parts))
    except StackError as error:
        sys.exit(f"error: {error}")


main(*sys.argv[1:])
