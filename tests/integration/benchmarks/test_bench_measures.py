"""The measures of `groundline bench chat` against servers on real ports."""

import json
import os
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from groundline_benchmarks.chat.chats import timed_chat
from groundline_benchmarks.chat.latency import measure_latency
from groundline_benchmarks.chat.memory import measure_memory
from groundline_benchmarks.chat.provider import Provider, serving_provider
from groundline_benchmarks.chat.quality import measure_quality
from groundline_benchmarks.chat.streams import measure_streams
from groundline_benchmarks.command import bench
from groundline_benchmarks.measuring.suite import SuiteFailedError, started_suite
from groundline_cli.evaluation.sets import EvaluationSet, Query
from groundline_client import ApiError, JsonObject
from groundline_tests.gateway.running import FakeGateway

REQUEST: JsonObject = {"query": "q"}
EVENTS: list[JsonObject] = [
    {"started": {"threadId": "t"}},
    {"delta": {"text": "a"}},
    {"delta": {"text": "b"}},
    {"completed": {"timings": [{"stage": "STAGE_RETRIEVING", "durationMs": 2.0}]}},
]


async def test_a_suite_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(SuiteFailedError, match="did not start"):
        async with started_suite(tmp_path, {"GROUNDLINE_DATABASE_URL": "postgresql://127.0.0.1:1/none"}):
            pass


def test_a_set_that_is_not_there_is_wrong_usage() -> None:
    result = CliRunner().invoke(bench, ["chat", "nowhere:german"])
    assert result.exit_code == 2
    assert "'nowhere' is not a directory" in result.stderr


async def test_a_chat_that_fails_ends_the_measurement(gateway: FakeGateway) -> None:
    gateway.chat_events = [EVENTS[0], {"error": {"code": 14, "reason": "DOWN", "message": "down"}}]
    async with gateway.connection.client() as client:
        with pytest.raises(ApiError):
            await timed_chat(client, REQUEST)


async def test_the_provider_streams_as_openai_does_and_survives_who_hangs_up() -> None:
    provider = Provider(tokens=5, tokens_per_second=1000)
    async with (
        serving_provider(provider),
        httpx.AsyncClient(base_url=provider.address, trust_env=False) as http,
    ):
        url, body = "/chat/completions", {"stream": True}
        for _ in range(2):  # twice on one connection
            answer = await http.post(url, json=body)
            lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
            assert lines[-1] == "[DONE]"
            chunks = [json.loads(line) for line in lines[:-1]]
            tokens = [c["choices"][0]["delta"].get("content") for c in chunks if c["choices"]]
            assert tokens == [*[" word"] * 4, " [1].", None]
            assert chunks[-1]["usage"]["completion_tokens"] == 5
        whole = (await http.post(url, json={})).json()
        assert whole["choices"][0]["finish_reason"] == "stop"
        async with http.stream("POST", url, json=body) as broken:
            await anext(broken.aiter_bytes())
        assert (await http.post(url, json={})).is_success
    assert len(provider.first_token) == 3
    assert len(provider.gaps) >= 8
    assert provider.whole_calls == 2


async def test_first_deltas_are_timed_without_those_that_warm_up(gateway: FakeGateway) -> None:
    gateway.chat_events = EVENTS
    async with gateway.connection.client() as client:
        latency = await measure_latency(client, [REQUEST] * 5, None, {"me": os.getpid()}, warm_up=2)
    assert latency.chats == 3
    assert 0 < latency.first_delta[0] <= latency.first_delta[1]
    assert list(latency.parts["STAGE_RETRIEVING"]) == pytest.approx([2.0, 2.0])
    assert set(latency.processor_ms) == {"me"}


class SlowProvider(Provider):
    """Provider whose tokens seem to come far apart in every measurement."""

    def forget(self) -> None:
        self.gaps.append(1e6)


async def test_streams_double_until_the_most(gateway: FakeGateway) -> None:
    gateway.chat_events = EVENTS
    provider = SlowProvider(tokens=2)
    steps = await measure_streams(gateway.connection, [REQUEST], provider, {}, most=4)
    assert [step.streams for step in steps] == [1, 2, 4]


async def test_memory_is_looked_at_three_times(gateway: FakeGateway) -> None:
    gateway.chat_events = EVENTS
    async with gateway.connection.client() as client:
        growth = await measure_memory(
            client, [REQUEST], {"me": os.getpid()}, chats=5, warm_up=2, concurrency=2
        )
    assert len(gateway.requests) == 7
    assert all(size > 1 for size in growth.processes["me"])


async def test_answers_are_held_against_what_is_known(gateway: FakeGateway, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(
        '{"id": "gold", "text": "The tower is 308 m high."}\n{"id": "other", "text": "A bridge."}\n'
    )
    (tmp_path / "queries.jsonl").write_text('{"id": "q", "text": "How high?", "answer": "308 m"}\n')
    (tmp_path / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq\tgold\t1\n")
    gateway.answer = {
        "answer": "It is 308 M, high [1] [2].",
        "sources": [{"number": 1, "uri": "gold"}, {"number": 2, "uri": "other"}],
        "completed": {
            "finishReason": "FINISH_REASON_STOP",
            "citations": [{"sourceNumber": 1}, {"sourceNumber": 2}],
        },
    }
    questions = [
        Query("high", "How high?", {"gold": 1}, ["308 m"]),
        Query("wide", "How wide?", {"gold": 1}, ["30"]),
    ]
    async with gateway.connection.client() as client:
        quality = await measure_quality(
            client, EvaluationSet.load(tmp_path), questions, "english", name="set", concurrency=2
        )
    assert (quality.questions, quality.removed_documents) == (2, 1)
    assert (quality.contains_answer, quality.citations_gold) == (0.5, 0.5)
    assert (quality.sources_contain_gold, quality.refused, quality.refused_without_gold) == (1.0, 0.0, 0.0)
    assert sorted(gateway.documents["set"]) == ["gold", "other"]
    assert sorted(gateway.documents["set-rest"]) == ["other"]
