"""A service process for the tests; its behaviour is chosen by what it is asked.

`crash` raises with a secret in the text, `forward` asks the backend to `crash`, `hold` streams one message
and then waits, `starve` streams one and then keeps the interpreter from everything else for nine seconds,
`leave` stops reading the backend's `hold`, `select` asks the database, anything else comes back.
"""

import asyncio
import ctypes
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from pydantic import SecretStr
from pydantic_settings import SettingsConfigDict

sys.path[:0] = [str(Path(__file__).parent), sys.argv.pop(1)]

import probe_pb2  # type: ignore[import-not-found]  # noqa: E402
import probe_pb2_grpc  # type: ignore[import-not-found]  # noqa: E402
from groundline_database import DatabaseSettings, open_pool, require_schema  # noqa: E402
from groundline_runtime.channels import cancelled_on_exit, open_channel  # noqa: E402
from groundline_runtime.serving.server import Application, run  # noqa: E402
from groundline_runtime.settings import ServiceSettings  # noqa: E402
from groundline_runtime.status import translated_rpc_errors  # noqa: E402
from probe_servicer import (  # type: ignore[import-not-found]  # noqa: E402
    SERVICE,
    ProbeServicer,
    application,
)


class ProbeSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_PROBE_")

    backend: str | None = None
    """Target of the next probe."""

    api_key: SecretStr = SecretStr("unset")
    """Something to keep quiet about."""

    database_url: SecretStr | None = None
    """Where a pool is opened."""


@asynccontextmanager
async def wire(settings: ProbeSettings) -> AsyncIterator[Application]:
    async with AsyncExitStack() as stack:
        stack.callback(print, "closed what wire opened", flush=True)
        stub = pool = None
        if settings.database_url:
            pool = await stack.enter_async_context(
                open_pool(DatabaseSettings(database_url=settings.database_url))
            )
            await require_schema(pool, {"probe": 3})
        if settings.backend:
            channel = await stack.enter_async_context(open_channel(settings.backend, service=SERVICE))
            stub = probe_pb2_grpc.ProbeServiceStub(channel)

        async def answer(text: str) -> str:
            if text == "crash":
                raise RuntimeError(f"postgresql://user:{settings.api_key.get_secret_value()}@db/groundline")
            if text == "forward" and stub is not None:
                with translated_rpc_errors():
                    reply = await stub.Look(probe_pb2.Ask(text="crash"))
                return str(reply.text)
            if text == "select" and pool is not None:
                return str(await pool.fetchval("SELECT 'found ' || $1::text", "a private value"))
            return text

        async def follow(text: str) -> AsyncIterator[str]:
            yield "begun"
            if text == "hold":
                await asyncio.Event().wait()
            if text == "starve":
                ctypes.PyDLL(None).sleep(9)  # unlike CDLL, it keeps the interpreter's lock
            if text == "forward" and stub is not None:
                with translated_rpc_errors():
                    async for reply in stub.Follow(probe_pb2.Ask(text="crash")):
                        yield reply.text
            if text == "leave" and stub is not None:
                async with cancelled_on_exit(stub.Follow(probe_pb2.Ask(text="hold"))) as replies:
                    async for reply in replies:
                        yield reply.text
                        break
            yield await answer(text)

        yield application(ProbeServicer(look=answer, change=answer, follow=follow))


if __name__ == "__main__":
    run(ProbeSettings, wire)
