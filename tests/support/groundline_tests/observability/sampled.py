"""A suite whose spans go to the real Collector, with the configuration that deploy/ ships."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import yaml
from groundline_cli.stack.ports import reserved_port
from groundline_cli.stack.process import ChildProcess, Command
from groundline_cli.stack.readiness import wait_until_healthy
from groundline_tests.generator.providers import OpenAIWire, ProviderServer, Reply
from groundline_tests.go.programs import build_tools, built, cache_folder, key_of
from groundline_tests.runtime import OtlpCollector, Span
from groundline_tests.suite import EXAMPLES, ROOT, running_stack

MODULE: Final = ROOT / "tools/otelcol"
SHIPPED: Final = ROOT / "deploy/k8s/components/otel-collector/collector.yaml"
WIRE: Final = OpenAIWire()
START_SECONDS: Final = 60
SHARE_PERCENT: Final = 50
"""Share of the traces that nothing speaks for; with the shipped one, a test would need many more chats."""


@dataclass(slots=True)
class Sampled:
    """A running suite, its model, all that it sent, and what of it the Collector kept."""

    client: httpx.AsyncClient
    model: ProviderServer
    sent: OtlpCollector
    kept: OtlpCollector
    reply: Reply
    address: str
    """host:port of the Collector."""

    async def asked(self, reply: Reply | None = None) -> str:
        """Ask a question that the model replies to, and return the id of its trace."""
        self.model.replies = [reply or self.reply]
        question = {
            "query": "What torque closes the hatch screws of the DN-4?",
            "collectionIds": ["examples"],
        }
        response = await self.client.post("/api/chat", json=question)
        first = next(line for line in response.text.splitlines() if line.startswith("data: "))
        trace_id: str = json.loads(first.removeprefix("data: "))["started"]["traceId"]
        return trace_id


def spans_of(trace_id: str, collector: OtlpCollector) -> Mapping[str, Span]:
    """Return the trace's spans by their ids."""
    return {span.span_id: span for span in collector.spans() if span.trace_id == trace_id}


@asynccontextmanager
async def sampled_suite(folder: Path) -> AsyncIterator[Sampled]:
    program = await asyncio.to_thread(collector)
    async with AsyncExitStack() as stack:
        sent, kept = [await stack.enter_async_context(OtlpCollector()) for _ in range(2)]
        model = await stack.enter_async_context(ProviderServer())
        port, health = [stack.enter_context(reserved_port()) for _ in range(2)]
        config = folder / "collector.yaml"
        config.write_text(yaml.safe_dump(_configuration(port, health, sent, kept)))
        command = Command("otelcol", (str(program), f"--config={config}"), dict(os.environ))
        process = await ChildProcess.start(command, folder / "otelcol.log")
        stack.push_async_callback(process.stop)
        await wait_until_healthy(f"http://127.0.0.1:{health}/", timeout_seconds=START_SECONDS)
        environment = {
            "GROUNDLINE_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "GROUNDLINE_GENERATOR_PROVIDER": "openai",
            "GROUNDLINE_GENERATOR_MODEL": "scripted",
            "GROUNDLINE_GENERATOR_PROVIDER_BASE_URL": WIRE.base_url(model),
        }
        suite = await stack.enter_async_context(running_stack(folder / "data", **environment))
        ingested = await suite.command("ingest", str(EXAMPLES), "--collection", "examples")
        assert ingested.code == 0, ingested.err
        client = await stack.enter_async_context(suite.client())
        reply = WIRE.answer("Close the four screws crosswise with 1.8 Nm. [1]")
        yield Sampled(client, model, sent, kept, reply, f"127.0.0.1:{port}")


def collector() -> Path:
    """Return the program of the Collector; build it if it is missing."""
    folder = built(
        cache_folder("otelcol"),
        key_of(MODULE, MODULE / "main.go"),
        lambda folder: build_tools(MODULE, folder / "bin"),
    )
    return folder / "bin/otelcol"


def _configuration(port: int, health: int, sent: OtlpCollector, kept: OtlpCollector) -> Any:
    """Return the shipped configuration, on loopback, with a larger share, with backends, and with a pipeline
    beside the others that keeps everything."""
    config = yaml.safe_load(SHIPPED.read_text())
    config["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"] = f"127.0.0.1:{port}"
    config["extensions"]["health_check"]["endpoint"] = f"127.0.0.1:{health}"
    for policy in config["processors"]["tail_sampling"]["policies"]:
        if policy["type"] == "probabilistic":
            policy["probabilistic"]["sampling_percentage"] = SHARE_PERCENT
    for name, backend in (("sent", sent), ("kept", kept)):
        config["exporters"][f"otlp/{name}"] = {"endpoint": backend.endpoint, "tls": {"insecure": True}}
    pipelines = config["service"]["pipelines"]
    pipelines["traces"]["exporters"] = ["otlp/kept"]
    pipelines["traces/sent"] = {"receivers": ["otlp"], "exporters": ["otlp/sent"]}
    # By default, it serves metrics of its own on a fixed port.
    config["service"]["telemetry"] = {"metrics": {"level": "none"}}
    return config
