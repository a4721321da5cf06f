"""groundline bench chat"""

from collections.abc import Sequence
from pathlib import Path

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.chat.benchmark import ChatBench, ChatFigures, EvaluationInput
from groundline_benchmarks.chat.latency import OVERHEAD
from groundline_benchmarks.measuring.databases import database_option
from groundline_benchmarks.measuring.goals import print_goals
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import Report, run
from groundline_benchmarks.measuring.suite import PROCESSES


@click.command(short_help="Measure answers: speed, streams, memory, quality.")
@click.argument("sets", nargs=-1, required=True, metavar="SET[:LANGUAGE]...")
@number("--questions", 300, "Questions of each set.")
@number("--latency-chats", 100, "Chats that are timed.", minimum=0)
@number("--streams", 256, "Maximum streams at a time.", minimum=0)
@number("--cancelled-chats", 20, "Chats left in the middle.", minimum=0)
@number("--memory-chats", 2000, "Chats between the two looks at the memory.", minimum=0)
@number("--tokens", 200, "Tokens of an answer.")
@number("--tokens-per-second", 100.0, "The model's speed.")
@database_option
@json_option
def chat(
    sets: tuple[str, ...],
    questions: int,
    latency_chats: int,
    streams: int,
    cancelled_chats: int,
    memory_chats: int,
    tokens: int,
    tokens_per_second: float,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Measure answers in suites started for this and stopped after it.

    Each SET is a folder as for `eval` whose queries name their `answer`; LANGUAGE (default english) is the
    lexical language of its text. The first set's questions are also those of the time measurements, first
    without a model (extractive) and then with a local server that speaks like OpenAI's, at a fixed speed.
    Client and model share the machine's cores with the suite.

    \b
    Overhead      time to the first delta through the gateway, less the work itself: the longer of the keyword
                  search and embedding + semantic search, fetching, and the model's own first token.
    Held          95 % of the gaps between deltas are at most twice as long as 95 % of the model's own.
    Cancellation  from the client's closing its connection to the model's seeing its own closed.

    A signal (Ctrl-C, SIGTERM) stops the suites and removes their data.
    """
    inputs = [EvaluationInput(*_set(text)) for text in sets]

    async def measure(report: Report) -> ChatFigures:
        return await ChatBench(
            sets=inputs,
            questions=questions,
            latency_chats=latency_chats,
            warm_up=min(20, latency_chats),
            most_streams=streams,
            cancelled_chats=cancelled_chats,
            memory_chats=memory_chats,
            tokens=tokens,
            tokens_per_second=tokens_per_second,
            database_url=database_url,
            report=report,
        ).run()

    figures = run(measure)
    if as_json:
        print_json(figures.as_json())
    else:
        _print(figures)


def _set(text: str) -> tuple[Path, str]:
    path, _, language = text.partition(":")
    if not Path(path).is_dir():
        raise click.BadParameter(f"{path!r} is not a directory", param_hint="SET")
    return Path(path), language or "english"


def _print(figures: ChatFigures) -> None:
    _table(
        (
            "SET",
            "QUESTIONS",
            "ANSWER IN IT",
            "GOLD IN SOURCES",
            "CITATIONS GOLD",
            "REFUSED",
            "REFUSED W/O GOLD",
        ),
        [
            (
                name,
                one.questions,
                one.contains_answer,
                one.sources_contain_gold,
                one.citations_gold,
                one.refused,
                one.refused_without_gold,
            )
            for name, one in figures.quality.items()
        ],
    )
    _table(
        ("TIME TO FIRST DELTA", "P50 MS", "P95 MS"),
        [
            (f"{provider} {part}", *times)
            for provider, one in figures.latency.items()
            for part, times in (
                ("first delta", one.first_delta),
                ("overhead", one.overhead),
                ("provider", one.provider_first_token),
                *one.parts.items(),
            )
        ],
    )
    if figures.latency:
        click.echo(f"overhead: {OVERHEAD}\n")
    _print_costs(figures)
    print_goals(figures.goals())


def _print_costs(figures: ChatFigures) -> None:
    _table(
        ("PROCESSOR MS OF ONE CHAT", *(name.upper() for name in PROCESSES)),
        [
            (provider, *(round(one.processor_ms[name], 2) for name in PROCESSES))
            for provider, one in figures.latency.items()
        ],
    )
    _table(
        ("STREAMS", "GAP P95 MS", "PROVIDER P95 MS", "HELD", "CORES", "OF THEM"),
        [
            (
                one.streams,
                one.gap_p95,
                one.provider_gap_p95,
                str(one.held),
                sum(one.cores.values()),
                ", ".join(f"{name} {cores:.2f}" for name, cores in one.cores.items() if cores >= 0.005),
            )
            for one in figures.streams
        ],
    )
    if (left := figures.cancellation) is not None:
        _table(
            ("CANCELLATION", "CHATS", "P50 MS", "P95 MS", "STORED AS CANCELLED"),
            [("seen by the provider", left.chats, *left.seen, left.stored)],
        )
    _table(
        ("RESIDENT MEMORY", "CHATS", "BEFORE MIB", "HALF-WAY MIB", "AFTER MIB"),
        [
            (f"{provider} {process}", one.chats, *sizes)
            for provider, one in figures.memory.items()
            for process, sizes in one.processes.items()
        ],
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        print_columns(headings, rows)
        click.echo()
