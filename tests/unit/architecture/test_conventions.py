"""Names of OpenTelemetry's conventions for generative AI, which are still in development."""

import re
from typing import Final

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from project import ROOT

NEWER: Final = {"gen_ai.retrieval.top_k"}
"""Names of the conventions' own repository, 0.1.0, that the package of names does not have yet."""

_NAME: Final = re.compile(r'"(gen_ai\.[a-z_.]+)"')


def used() -> set[str]:
    paths = (path for part in ("libs", "services") for path in (ROOT / part).glob("*/groundline_*/**/*.py"))
    return {name for path in paths for name in _NAME.findall(path.read_text())}


def known() -> set[str]:
    values = (*vars(gen_ai_attributes).values(), *vars(gen_ai_metrics).values())
    return {value for value in values if isinstance(value, str) and value.startswith("gen_ai.")}


def test_every_name_in_spans_and_metrics_is_one_of_the_conventions() -> None:
    assert used() - known() == NEWER
