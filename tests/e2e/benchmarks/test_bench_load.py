"""`groundline bench load` on a real suite: every kind is answered, and what it costs is known by process."""

import json
from pathlib import Path

from click.testing import CliRunner
from groundline_benchmarks.command import bench
from groundline_benchmarks.load.requests import KINDS
from groundline_benchmarks.measuring.suite import PROCESSES

REACHED = {
    "search": {"retriever"},
    "answer": {"coordinator", "retriever", "generator"},
    "chat": {"coordinator", "retriever", "generator"},
    "completion": {"bridge", "coordinator", "retriever", "generator"},
    "tool": {"bridge", "retriever"},
    "ingest": {"ingestor"},
}


def test_every_kind_is_answered_and_its_cost_is_where_it_goes(tmp_path: Path) -> None:
    page, run = tmp_path / "load.html", tmp_path / "load.json"
    arguments = [
        "--rate",
        "10..20",
        "--over",
        "3",
        "--documents",
        "20",
        "--cost-seconds",
        "1",
        "--within",
        "60",
    ]
    result = CliRunner().invoke(
        bench, ["load", *arguments, "--mix", ",".join(KINDS), "--html", str(page), "--json"]
    )
    # 1: on a busy machine the sender may be late, which it says itself.
    assert result.exit_code in (0, 1), result.output
    found = json.loads(result.stdout)
    assert found["valid"] == (result.exit_code == 0)
    assert found["reasons"] == {}
    for kind in KINDS:
        counts = found["kinds"][kind]["counts"]
        assert counts["answered"] == sum(counts.values()) > 0
        costs = found["processorMs"][kind]
        assert set(costs) == set(PROCESSES)
        assert REACHED[kind] <= {name for name, spent in costs.items() if spent > 0}
    assert found["knee"] == found["windows"][-1]["rate"]
    assert found["databaseConnections"]["retriever"] >= 1
    assert all(held["memory_mib"] > 0 for held in found["loaded"].values())
    assert "Processor time of a request" in page.read_text()

    run.write_text(result.stdout)
    simulated = CliRunner().invoke(
        bench, ["capacity", str(run), "--rate", "10..20", "--over", "60", "--json"]
    )
    assert all(part["p50"] > 0 for part in json.loads(simulated.stdout)["parts"])
