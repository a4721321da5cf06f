"""Processor time, of real processes."""

import asyncio
import os
import subprocess
import sys

from groundline_benchmarks.measuring.load import Figures, measure_load, measure_serially
from groundline_benchmarks.measuring.processes import processor_time

# Works until it has taken that much of a processor, then waits for its input to end.
BUSY = """
import subprocess, sys, time
if len(sys.argv) > 1:
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=sys.stdin, stdout=sys.stdout)
while time.process_time() < 0.3:
    pass
print("done", flush=True)
sys.stdin.read()
"""


def busy(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", BUSY, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_what_a_process_has_started_counts_for_it_also_when_it_has_ended() -> None:
    with processor_time({"me": os.getpid()}) as ended, busy() as process:
        process.communicate()
    assert ended["me"] > 0.28  # the system counts in hundredths of a second

    with busy(BUSY) as process:
        assert process.stdout
        with processor_time({"parent": process.pid}) as running:
            assert [process.stdout.readline() for _ in range(2)] == ["done\n"] * 2
        assert running["parent"] >= 0.4  # most of both: they may have begun before
        process.communicate()


def test_a_process_that_is_named_itself_counts_once() -> None:
    with busy() as process:
        assert process.stdout
        process.stdout.readline()
        with processor_time({"me": os.getpid(), "child": process.pid}) as taken:
            pass
        assert taken["me"] < 0.3
        process.communicate()


async def test_load_counts_what_all_clients_have_done_and_what_one_took() -> None:
    done: list[str] = []

    async def work(query: str) -> None:
        done.append(query)
        await asyncio.sleep(0.001)

    figures = Figures()
    await measure_load(figures, work, ["a", "b"], {"me": os.getpid()}, clients=3, seconds=0.1)
    assert figures.per_second > 0
    assert set(done) == {"a", "b"}
    assert figures.processor_ms["me"] < 100


async def test_ways_take_turns_after_a_round_that_does_not_count() -> None:
    done: list[str] = []

    async def first(query: str) -> None:
        done.append(f"first {query}")

    async def second(query: str) -> None:
        done.append(f"second {query}")

    figures = await measure_serially({"first": first, "second": second}, ["a", "b"])
    assert done == [
        *("first a", "first b", "second a", "second b"),
        *("first a", "second a", "first b", "second b"),
    ]
    assert [len(one.serial_ms) for one in figures.values()] == [2, 2]
