"""The generator as a process of its own: what it loads, and what it tells about its calls."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groundline.v1 import generator_service_pb2 as pb
from groundline.v1 import generator_service_pb2_grpc
from groundline_generator.servicer import SERVICE
from groundline_runtime.channels import open_channel
from groundline_tests.generator.providers import OpenAIWire, ProviderServer
from groundline_tests.runtime import OtlpCollector

SECRETS = ("sesame", "Paris", "capital")


def test_without_a_hosted_provider_no_sdk_is_loaded() -> None:
    code = (
        "import sys, asyncio\n"
        "from groundline_generator.__main__ import wire\n"
        "from groundline_generator.settings import GeneratorSettings\n"
        "async def main():\n"
        "    async with wire(GeneratorSettings()): pass\n"
        "asyncio.run(main())\n"
        "print([name for name in ('openai', 'google.genai', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@asynccontextmanager
async def generator(**settings: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Provide a running process: its target, and the lines it logs."""
    environment = {f"GROUNDLINE_GENERATOR_{name.upper()}": value for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "groundline_generator",
        env={**os.environ, "GROUNDLINE_GENERATOR_LOG_FORMAT": "json", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    lines: list[str] = []
    while "service_started" not in (line := (await process.stdout.readline()).decode()):
        lines.append(line)
        assert line, lines
    try:
        yield f"127.0.0.1:{json.loads(line)['port']}", lines
    finally:
        process.terminate()
        rest, _ = await process.communicate()
        lines.extend(rest.decode().splitlines())


async def test_a_model_call_is_a_span_with_its_tokens_and_without_its_words() -> None:
    wire = OpenAIWire()
    async with ProviderServer() as provider, OtlpCollector() as collector:
        provider.replies = [wire.answer("Paris is the capital of France. [1]")]
        async with (
            generator(
                provider="openai",
                model="m",
                provider_api_key="sesame",
                provider_base_url=wire.base_url(provider),
                otlp_endpoint=collector.endpoint,
                drain_seconds="0",
            ) as (target, lines),
            open_channel(target, service=SERVICE) as channel,
        ):
            stub = generator_service_pb2_grpc.GeneratorServiceStub(channel)
            passage = pb.NumberedPassage(number=1, text="Paris is the capital of France.")
            request = pb.GenerateRequest(query="What is the capital of France?", passages=[passage])
            async for _ in stub.Generate(request):
                pass
        # Both are flushed when the process ends.
        spans = {span.name: span for span in collector.spans()}
        metrics = collector.metric_names()
    call = spans["chat m"]
    assert call.kind == "CLIENT"
    assert call.parent_span_id == spans["answer"].span_id
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "served-model",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
    }
    assert {name: call.attributes.get(name) for name in expected} == expected
    assert metrics >= {
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.token.usage",
    }
    told = "\n".join(lines) + str(
        [(span.attributes, span.events, span.status_message) for span in spans.values()]
    )
    assert not [secret for secret in SECRETS if secret in told]
