"""`groundline bench chat` as a user runs it, with the smallest numbers that measure anything."""

import asyncio
import json
import os
import sys
from pathlib import Path


async def test_every_measure_is_taken(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(
        '{"id": "tower", "text": "The radio tower of Kiel is 308 metres high."}\n'
        '{"id": "bridge", "text": "The bridge over the canal was built in 1912."}\n'
    )
    (tmp_path / "queries.jsonl").write_text(
        '{"id": "q", "text": "How high is the radio tower of Kiel?", "answer": "308"}\n'
    )
    (tmp_path / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq\ttower\t1\n")
    numbers = ("--latency-chats", "2", "--streams", "2", "--memory-chats", "4", "--tokens", "4")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "groundline_cli", "bench", "chat", str(tmp_path), *numbers, "--json"),
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
    assert {"coordinator", "generator", "envoy"} <= set(figures["memory"]["openai"]["processes"])
