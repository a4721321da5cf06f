"""Every panel's query, asked of a Prometheus that watches a suite under load."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from groundline_tests.observability.watched import WIRE, Watched
from groundline_tests.suite import ROOT
from monitoring_parts.expressions import WINDOW
from monitoring_parts.panels import DASHBOARDS, Dashboard, queries

ANSWER = WIRE.answer("The services run in containers [1].")
SERVICES = ("coordinator", "bridge")
"""Services of which the dashboard of one service is shown: together they have each of its series."""


@pytest.fixture(scope="module")
async def used(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """The suite after everything that panels show has happened in it."""
    folder = tmp_path_factory.mktemp("handed-in")
    (folder / "manual.md").write_text("# Pump\n\nThe torque of the pump is 12 Nm.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nbroken")
    async with watched.going_on(watched.ask, watched.search):
        await watched.stack.command("ingest", str(folder), "--collection", "manuals")
        await failing_calls(watched)
        await rated_and_verified(watched)
        await collected(watched)
        await through_the_bridge(watched)
        for counted in (
            "groundline_answer_ratings_total",
            "groundline_generator_judged_claims_total",
            "groundline_verified_claims_total",
            "http_server_request_duration_seconds_count",
        ):
            await watched.prometheus.wait_for(f"rate({counted}[30s])")
    return watched


async def failing_calls(watched: Watched) -> None:
    """Let the model fail, which chats are told and reranking does without."""
    watched.reply = WIRE.failure(500)
    for _ in range(3):
        await watched.ask()
        await watched.search(options={"rerank": {"strategy": "RERANK_STRATEGY_LLM"}})
    watched.reply = ANSWER
    await watched.prometheus.wait_for("max(groundline_generator_paused) == 0", seconds=60)
    await watched.prometheus.wait_for("sum(rate(groundline_degradations_total[30s])) > 0", seconds=60)


async def rated_and_verified(watched: Watched) -> None:
    for rating in ({"rating": "RATING_GOOD"}, {"rating": "RATING_BAD", "problem": "PROBLEM_OUTDATED"}):
        asked = await watched.client.post("/api/answer", json={"query": "What is deployed?"})
        answer = asked.raise_for_status().json()
        address = f"/api/threads/{answer['threadId']}/messages/{answer['messageId']}:rate"
        (await watched.client.post(address, json={"feedback": rating})).raise_for_status()
        await watched.client.post("/api/verify", json={"text": "The services run in containers."})


async def collected(watched: Watched) -> None:
    """Follow a source, which the collector reads."""
    source = {"name": "site", "web": {"startUrl": "http://127.0.0.1:9/"}}
    address = "/api/collections/manuals/sources"
    created = await watched.client.post(address, json={"source": source})
    source_id = created.raise_for_status().json()["source"]["sourceId"]
    async with watched.going_on(lambda: watched.client.post(f"{address}/{source_id}:run", json={})):
        await watched.prometheus.wait_for(
            'sum(rate(rpc_server_call_duration_seconds_count{service="collector"}[30s])) > 0', seconds=60
        )


async def through_the_bridge(watched: Watched) -> None:
    (await watched.client.get("/v1/models")).raise_for_status()


def filled(query: str, service: str) -> str:
    return query.replace(WINDOW, "1m").replace("$service", service)


async def without_data(watched: Watched, dashboard: Dashboard) -> list[str]:
    found = []
    for panel, query in queries(dashboard):
        answers = [await watched.prometheus.query(filled(query, service)) for service in SERVICES]
        has_data = any(math.isfinite(sample.value) for samples in answers for sample in samples)
        if has_data == bool(panel.needs):
            found.append(f"{panel.title}: {query}")
    return found


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
async def test_each_panel_shows_data_unless_its_part_is_absent(used: Watched, dashboard: Dashboard) -> None:
    assert await without_data(used, dashboard) == []


async def test_a_point_of_a_panel_leads_to_the_trace_of_its_request(used: Watched) -> None:
    exemplars = await used.prometheus.exemplars("groundline_answer_time_to_first_delta_seconds_bucket")
    assert exemplars
    assert all(len(each.labels["trace_id"]) == 32 for each in exemplars)


def test_the_files_are_dashboards_of_these_queries() -> None:
    for dashboard in DASHBOARDS:
        path: Path = ROOT / f"deploy/observability/dashboards/{dashboard.name}.json"
        written: dict[str, Any] = json.loads(path.read_text())
        shown = [target["expr"] for panel in written["panels"] for target in panel.get("targets", ())]
        assert shown == [query for _, query in queries(dashboard)]
