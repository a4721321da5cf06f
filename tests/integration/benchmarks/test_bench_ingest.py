"""`groundline bench ingest` with small amounts: its figures are present and complete; speed is not tested."""

import pytest
from groundline_benchmarks.ingest.benchmark import Measure, Sizes, measure_on
from groundline_benchmarks.measuring.databases import databases_of
from groundline_cli.stack.postgres import EmbeddedPostgres


def test_a_figure_without_a_reference_has_no_ratio() -> None:
    assert Measure("chunks", 8.0, "chunks/s").ratio is None
    assert Measure("chunks", 8.0, "chunks/s", "COPY", 16.0).ratio == 0.5


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        (Sizes(0, 0, 0), []),
        (
            Sizes(40, 0, 0),
            [
                "stored, both indexes ready",
                "stored, searchable (vectors exactly)",
                "stored into live indexes",
                *(
                    f"imported by {processes}, {until}"
                    for processes in (1, 2, 4)
                    for until in ("loaded", "both indexes ready")
                ),
                "ingested, both indexes ready",
                "ingested, searchable (vectors exactly)",
            ],
        ),
        (
            Sizes(0, 4, 1),
            ["ingested with local MiniLM", "peak RSS, a text of 1 MiB", "ingested, a text of 1 MiB"],
        ),
    ],
)
async def test_what_is_asked_is_measured(postgres: EmbeddedPostgres, sizes: Sizes, names: list[str]) -> None:
    begun: list[str] = []
    measures = await measure_on(databases_of(postgres), sizes, begun.append)
    assert [one.name for one in measures] == names
    assert all(one.figure > 0 for one in measures)
    assert bool(begun) == bool(names)
