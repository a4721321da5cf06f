"""grpc.health.v1 follows the dependencies, both ways."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import grpc
import pytest
import structlog
from google.protobuf.message import Message
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.serving.health import LIVENESS, OVERALL, HealthMonitor
from groundline_runtime.settings import ServiceSettings
from groundline_tests.runtime import serve
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
OFTEN = ServiceSettings.model_construct(health_interval_seconds=0.01, health_timeout_seconds=0.05)


class Dependency:
    def __init__(self, up: bool = True) -> None:
        self.up = up
        self.asked = asyncio.Event()
        self.hangs = False
        self.lingers: asyncio.Event | None = None
        """Where set, a check that hangs ends with it, and not by being cancelled."""

    async def check(self) -> None:
        self.asked.set()
        if self.hangs:
            try:
                await asyncio.Event().wait()
            finally:
                if self.lingers is not None:
                    await self.lingers.wait()
        if not self.up:
            raise ConnectionError("postgresql://user:hunter2@db")


async def statuses(target: str, service: str) -> AsyncIterator[int]:
    async with grpc.aio.insecure_channel(target) as channel:
        call = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=service))
        try:
            async for reply in call:
                yield reply.status
        finally:
            call.cancel()


async def until(target: str, service: str, status: int) -> None:
    async with asyncio.timeout(10):
        async for seen in statuses(target, service):
            if seen == status:
                return


async def test_before_the_first_check_ends_a_service_is_not_ready_but_alive(probe: SimpleNamespace) -> None:
    dependency = Dependency()
    dependency.hangs = True
    settings = ServiceSettings.model_construct(health_timeout_seconds=600.0)
    async with serve(probe.application(probe.Servicer(), database=dependency.check), settings) as target:
        await dependency.asked.wait()
        for service, expected in (("", NOT_SERVING), (probe.SERVICE, NOT_SERVING), ("liveness", SERVING)):
            assert await anext(statuses(target, service)) == expected


async def test_a_service_without_dependencies_is_ready_and_looks_at_nothing_again() -> None:
    monitor = HealthMonitor(["service"], {}, interval_seconds=3600.0, timeout_seconds=1.0)
    await monitor.start()
    async with asyncio.timeout(10):
        await monitor.watch()
    for name in ("service", OVERALL):
        reply = await monitor.servicer.Check(health_pb2.HealthCheckRequest(service=name), None)
        assert reply.status == SERVING


async def test_a_service_that_drains_looks_at_nothing_again() -> None:
    dependency = Dependency()
    monitor = HealthMonitor(
        ["service"], {"database": dependency.check}, interval_seconds=3600.0, timeout_seconds=1.0
    )
    await monitor.start()
    watching = asyncio.create_task(monitor.watch())
    await monitor.checked()
    await monitor.drain()
    async with asyncio.timeout(10):
        await watching
    reply = await monitor.servicer.Check(health_pb2.HealthCheckRequest(service="service"), None)
    assert reply.status == NOT_SERVING


async def test_who_asks_is_told_what_is_so_now_and_who_asks_soon_again_what_was_found() -> None:
    dependency = Dependency()
    asked = health_pb2.HealthCheckRequest(service="service")
    for interval, expected in ((0.0, (SERVING, NOT_SERVING, SERVING)), (3600.0, (SERVING, SERVING, SERVING))):
        checks = {"database": dependency.check}
        monitor = HealthMonitor(["service"], checks, interval_seconds=interval, timeout_seconds=1.0)
        await monitor.start()
        for dependency.up, status in zip((True, False, True), expected, strict=True):
            replies = await asyncio.gather(*(monitor.servicer.Check(asked, None) for _ in range(3)))
            assert [reply.status for reply in replies] == [status] * 3


@pytest.mark.parametrize("fault", ["fails", "hangs"])
async def test_readiness_follows_a_dependency_both_ways(probe: SimpleNamespace, fault: str) -> None:
    dependency = Dependency()
    with structlog.testing.capture_logs() as logs:
        async with serve(probe.application(probe.Servicer(), database=dependency.check), OFTEN) as target:
            await until(target, probe.SERVICE, SERVING)
            dependency.up, dependency.hangs = fault != "fails", fault == "hangs"
            await until(target, probe.SERVICE, NOT_SERVING)
            await until(target, "", NOT_SERVING)
            await until(target, "liveness", SERVING)
            dependency.up, dependency.hangs = True, False
            await until(target, probe.SERVICE, SERVING)
    events = [entry["event"] for entry in logs if entry["event"].startswith("service_")]
    assert events == ["service_ready", "service_not_ready", "service_ready"]
    [problem] = [entry for entry in logs if entry["event"] == "service_not_ready"]
    assert problem["failing"] == {"database": "ConnectionError" if fault == "fails" else "no answer in time"}


async def test_a_check_that_does_not_end_when_it_is_given_up_delays_nothing(probe: SimpleNamespace) -> None:
    dependency = Dependency()
    async with serve(probe.application(probe.Servicer(), database=dependency.check), OFTEN) as target:
        await until(target, probe.SERVICE, SERVING)
        dependency.lingers, dependency.hangs = asyncio.Event(), True
        await until(target, probe.SERVICE, NOT_SERVING)
        dependency.hangs = False
        await until(target, probe.SERVICE, SERVING)
        dependency.lingers.set()


async def test_an_unknown_service_is_not_found(probe: SimpleNamespace) -> None:
    async with (
        serve(probe.application(probe.Servicer())) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="x"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_lists_the_services_and_is_not_logged_as_an_rpc(probe: SimpleNamespace) -> None:
    def requests() -> list[Message]:
        return [reflection_pb2.ServerReflectionRequest(list_services="")]

    with structlog.testing.capture_logs() as logs:
        async with (
            serve(probe.application(probe.Servicer())) as target,
            grpc.aio.insecure_channel(target) as channel,
        ):
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            [reply] = [reply async for reply in stub.ServerReflectionInfo(iter(requests()))]
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="liveness"))
    names = {service.name for service in reply.list_services_response.service}
    assert {probe.SERVICE, "grpc.health.v1.Health"} <= names
    assert not [entry for entry in logs if entry["event"] == "rpc_finished"]


async def test_a_taken_port_is_a_clear_error(probe: SimpleNamespace) -> None:
    async with serve(probe.application(probe.Servicer())) as target:
        taken = ServiceSettings.model_construct(port=int(target.rpartition(":")[2]))
        with pytest.raises(FailedPreconditionError, match="cannot listen on"):
            async with serve(probe.application(probe.Servicer()), taken):
                pass


async def test_a_process_whose_threads_all_hang_is_not_alive() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    monitor = HealthMonitor([], {}, interval_seconds=0.01, timeout_seconds=1.0, thread_seconds=0.1)
    await monitor.start()

    async def until_alive_is(status: int) -> None:
        asked = health_pb2.HealthCheckRequest(service=LIVENESS)
        async with asyncio.timeout(20):
            while (await monitor.servicer.Check(asked, None)).status != status:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    may_go_on = threading.Event()
    watching = asyncio.create_task(monitor.watch_threads())
    hanging = asyncio.create_task(asyncio.to_thread(may_go_on.wait))
    await until_alive_is(NOT_SERVING)
    may_go_on.set()
    await hanging
    await until_alive_is(SERVING)
    watching.cancel()
