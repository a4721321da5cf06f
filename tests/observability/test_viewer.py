"""`groundline up --observe` with the real MLflow, installed from the package's own list at first."""

import asyncio
import html
import json
import time
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from groundline_tests.generator.providers import ProviderServer
from groundline_tests.observability.watched import WIRE
from groundline_tests.suite import EXAMPLES, Stack, is_running, running_stack

QUESTION: Final = "What torque closes the hatch screws of the DN-4?"
WAIT_SECONDS: Final = 60
SPANS: Final = {"Chat", "retrieval", "chat scripted"}
"""Names of spans of the gateway, the retriever and the generator."""

type Attributes = Mapping[str, Any]


async def asked(stack: Stack) -> str:
    """Ask the question, and return the id of its trace."""
    async with stack.client() as client:
        response = await client.post("/api/chat", json={"query": QUESTION, "collectionIds": ["examples"]})
    first = next(line for line in response.text.splitlines() if line.startswith("data: "))
    trace_id: str = json.loads(first.removeprefix("data: "))["started"]["traceId"]
    return trace_id


async def shown(stack: Stack, trace_id: str, names: Set[str] = SPANS) -> Mapping[str, Attributes]:
    """Return the attributes of the trace's spans by their names, once the viewer has those of `names`."""
    address = f"{stack.ready['viewer'].partition('/#')[0]}/api/3.0/mlflow/traces/get"
    asked_for = {"trace_id": f"tr-{trace_id}", "allow_partial": "true"}
    deadline, last = time.monotonic() + WAIT_SECONDS, ""
    async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as client:
        while time.monotonic() < deadline:
            try:
                answer = await client.get(address, params=asked_for)
            except httpx.TransportError as error:
                last = repr(error)
            else:
                last = answer.text
                spans = answer.json()["trace"]["spans"] if answer.is_success else ()
                found = {span["name"]: attributes_of(span) for span in spans}
                if found.keys() >= names:
                    return found
            await asyncio.sleep(0.2)
    raise AssertionError(f"the trace {trace_id} has not all of {names}; last: {last[:3000]}")


def attributes_of(span: Mapping[str, Any]) -> Attributes:
    return {each["key"]: plain(each["value"]) for each in span["attributes"] if each.get("value")}


def plain(value: Mapping[str, Any]) -> Any:
    """Return a value of OTLP's JSON form; the viewer has read texts that are JSON."""
    [(kind, held)] = value.items()
    match kind:
        case "array_value":
            return [plain(each) for each in held.get("values", ())]
        case "kvlist_value":
            return {each["key"]: plain(each["value"]) for each in held.get("values", ())}
    return held


async def test_a_chat_is_shown_with_its_passages_and_tokens_also_after_a_crash(tmp_path: Path) -> None:
    async with ProviderServer() as model:
        model.respond = lambda request: WIRE.answer("Close the four screws crosswise with 1.8 Nm. [1]")
        environment = {
            "GROUNDLINE_GENERATOR_PROVIDER": "openai",
            "GROUNDLINE_GENERATOR_MODEL": "scripted",
            "GROUNDLINE_GENERATOR_PROVIDER_BASE_URL": WIRE.base_url(model),
        }
        async with running_stack(tmp_path / "data", "--observe", **environment) as stack:
            ingested = await stack.command("ingest", str(EXAMPLES), "--collection", "examples")
            assert ingested.code == 0, ingested.err
            before = await asked(stack)
            async with stack.client() as client:
                page = html.unescape((await client.get("/")).text)
            assert f'"traceUrl": "{stack.ready["viewer"]}?' in page
            spans = await shown(stack, before)

            passages = spans["retrieval"]["gen_ai.retrieval.documents"]
            assert [int(each["rank"]) for each in passages] == list(range(1, len(passages) + 1))
            assert all(each["id"] and each["score"] for each in passages)
            assert "torque" not in json.dumps(spans["retrieval"])
            call = spans["chat scripted"]
            assert call["gen_ai.request.model"] == "scripted"
            assert int(call["gen_ai.usage.output_tokens"]) > 0

            viewer = psutil.Process(stack.ready["pids"]["viewer"])
            assert {each.laddr.ip for each in viewer.net_connections() if each.status == "LISTEN"} == {
                "127.0.0.1"
            }
            viewer.kill()
            await shown(stack, before)
            await shown(stack, await asked(stack))
            ready = json.loads((stack.data_dir / "ready.json").read_text())
            assert ready["pids"]["viewer"] != viewer.pid
            assert await stack.stop() == 0
            assert not [pid for pid in ready["pids"].values() if is_running(pid)]
