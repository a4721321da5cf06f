"""`groundline bench chat` as a user runs it, with the smallest numbers that measure anything."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


@pytest.fixture
def one_question(tmp_path: Path) -> Path:
    """A set of one question."""
    (tmp_path / "corpus.jsonl").write_text(
        '{"id": "tower", "text": "The radio tower of Kiel is 308 metres high."}\n'
        '{"id": "bridge", "text": "The bridge over the canal was built in 1912."}\n'
    )
    (tmp_path / "queries.jsonl").write_text(
        '{"id": "q", "text": "How high is the radio tower of Kiel?", "answer": "308"}\n'
    )
    (tmp_path / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq\ttower\t1\n")
    return tmp_path


async def test_every_measure_is_taken(one_question: Path) -> None:
    numbers = (
        *("--latency-chats", "2", "--streams", "2", "--cancelled-chats", "2", "--memory-chats", "4"),
        *("--tokens", "20"),
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "groundline_cli", "bench", "chat", str(one_question), *numbers, "--json"),
        env=dict(os.environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    figures = json.loads(out)
    (quality,) = figures["quality"].values()
    assert (quality["contains_answer"], quality["citations_gold"], quality["refused_without_gold"]) == (
        1,
        1,
        1,
    )
    assert set(figures["latency"]) == set(figures["memory"]) == {"extractive", "openai"}
    assert figures["latency"]["openai"]["provider_first_token"][0] > 0
    assert [step["streams"] for step in figures["streams"]][:1] == [1]
    assert {"bench", "coordinator"} <= set(figures["streams"][0]["cores"])
    assert (figures["cancellation"]["chats"], figures["cancellation"]["stored"]) == (2, 2)
    assert {"coordinator", "generator", "envoy"} <= set(figures["memory"]["openai"]["processes"])


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where temporary files go: a path short enough for PostgreSQL's socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


async def test_a_signal_leaves_neither_processes_nor_data(one_question: Path, temporary: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "groundline_cli", "bench", "chat", str(one_question)),
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    while b"questions of" not in await process.stderr.readline():  # the suite runs
        assert process.returncode is None
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) > 5
    process.send_signal(signal.SIGTERM)
    await process.stderr.read()
    assert await process.wait() == 128 + signal.SIGTERM
    assert list(temporary.glob("groundline-*")) == []  # noqa: ASYNC240 - a directory of its own
    assert [each for each in started if each.is_running()] == []
