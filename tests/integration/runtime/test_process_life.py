"""A service as a process: how it starts, stops and fails to start."""

import asyncio
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from groundline_tests.listening import listening
from grpc_health.v1 import health_pb2, health_pb2_grpc

SECRET = "hunter2"


async def test_a_wrong_setting_is_one_line_on_stderr_and_exit_code_2(start: Any) -> None:
    process = await start(port="seven", drain_seconds="-1", api_key=SECRET)
    code, output, errors = await process.finish()
    assert code == 2
    assert output == ""
    [line] = errors.splitlines()
    assert line.startswith("groundline-probe: GROUNDLINE_PROBE_PORT (or GROUNDLINE_PORT): ")
    assert "GROUNDLINE_PROBE_DRAIN_SECONDS" in line
    assert SECRET not in line


async def test_a_missing_settings_file_is_one_line_and_exit_code_2(start: Any, tmp_path: Path) -> None:
    code, _, errors = await (await start("--settings", str(tmp_path / "none.env"))).finish()
    assert code == 2
    assert errors.endswith("none.env: no such file\n")


async def test_wiring_that_fails_is_one_log_line_without_traceback(start: Any) -> None:
    url = f"postgresql://user:{SECRET}@127.0.0.1:1/groundline"
    code, output, errors = await (await start(database_url=url)).finish()
    assert code == 1
    assert errors == ""
    [line] = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert (line["event"], line["reason"]) == ("stopped", "DATABASE_UNAVAILABLE")
    assert line["service"] == "groundline-probe"
    assert "exception" not in line
    assert SECRET not in output


async def test_a_port_in_use_ends_the_process(start: Any) -> None:
    first = await start()
    port = (await first.event("service_started"))["port"]
    code, output, _ = await (await start(port=port)).finish()
    assert code == 1
    assert "cannot listen on" in output


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_a_request_outlives_a_signal(start: Any, probe: SimpleNamespace, stop: signal.Signals) -> None:
    process = await start(drain_seconds=0.2, log_level="debug")
    port = (await process.event("service_started"))["port"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = probe.Stub(channel).Converse()
        await call.write(probe.Ask(text="before"))
        assert (await call.read()).text == "before"
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service=probe.SERVICE)
        )
        process.process.send_signal(stop)
        await process.event("service_draining")
        async for reply in watch:
            if reply.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                break
        watch.cancel()
        await call.write(probe.Ask(text="after"))
        assert (await call.read()).text == "after"
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK
    code, output, errors = await process.finish()
    assert (code, errors) == (0, "")
    assert output.index("rpc_finished") < output.index("closed what wire opened")
    assert output.index("closed what wire opened") < output.index("service_stopped")


async def test_a_second_signal_stops_at_once(start: Any, probe: SimpleNamespace) -> None:
    process = await start(drain_seconds=600, shutdown_grace_seconds=600)
    port = (await process.event("service_started"))["port"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = probe.Stub(channel).Converse()
        await call.write(probe.Ask(text="before"))
        await call.read()
        process.process.send_signal(signal.SIGTERM)
        await process.event("service_draining")
        process.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(15):
            code, _, _ = await process.finish()
        call.cancel()
    assert code == 0


async def test_a_signal_while_wiring_ends_the_process_cleanly(start: Any) -> None:
    connected = asyncio.Event()

    async def silent_database(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    async with listening(silent_database) as port:
        process = await start(database_url=f"postgresql://user:{SECRET}@127.0.0.1:{port}/x?sslmode=disable")
        await connected.wait()
        process.process.terminate()
        code, output, errors = await process.finish()
    assert (code, errors) == (0, "")
    assert "service_stopped" in output
    assert "service_started" not in output


async def test_secrets_reach_neither_log_nor_client(start: Any, probe: SimpleNamespace) -> None:
    process = await start(api_key=SECRET, drain_seconds=0)
    port = (await process.event("service_started"))["port"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await probe.Stub(channel).Look(probe.Ask(text="crash"))
    failed = await process.event("rpc_failed")
    process.process.terminate()
    _, output, errors = await process.finish()
    assert "RuntimeError" in failed["exception"]
    assert SECRET not in output + errors + str(caught.value)


async def test_settings_come_from_a_file_and_the_environment_wins(start: Any, tmp_path: Path) -> None:
    file = tmp_path / "probe.env"
    file.write_text("GROUNDLINE_PORT=70000\nGROUNDLINE_PROBE_DRAIN_SECONDS=0\n")
    code, _, errors = await (await start("--settings", str(file))).finish()
    assert (code, "GROUNDLINE_PORT" in errors) == (2, True)
    process = await start("--settings", str(file), port=0)
    await process.event("service_started")
    process.process.terminate()
    assert (await process.event("service_draining"))["drain_seconds"] == 0
    assert (await process.finish())[0] == 0
