"""How the Helm chart is made from manifests, and that its values are described; tests/cluster renders it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from chart_parts.parameters import value_name
from chart_parts.trees import Conditional, Inline, Items, Multiline, Tree, merged, written
from helm_chart import CHART, README, components

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
FREE = {"database.spec", "env", "requests", "limits", "settings"}
"""Values whose keys Kubernetes, an operator or the services know."""


def test_what_nobody_changes_is_written_as_it_is() -> None:
    tree = {"kind": "Service", "apiVersion": "v1", "spec": {"ports": [{"port": 80, "name": "http"}]}}
    text = written(merged(tree, {"mtls": tree}))
    assert text == ("apiVersion: v1\nkind: Service\nspec:\n  ports:\n    - name: http\n      port: 80\n")
    assert yaml.safe_load(text) == tree


MERGED: Mapping[str, tuple[Tree, Mapping[str, Tree], str]] = {
    "what one adds": ({"a": 1}, {"x": {"a": 1, "b": 2}}, "a: 1\n{{- if x }}\nb: 2\n{{- end }}\n"),
    "what two add": (
        {"a": 1},
        {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 2}},
        "a: 1\n{{- if or x y }}\nb: 2\n{{- end }}\n",
    ),
    "what one takes away": (
        {"a": 1, "b": 2},
        {"x": {"a": 1}, "y": {"a": 1, "b": 2}},
        "a: 1\n{{- if not x }}\nb: 2\n{{- end }}\n",
    ),
    "what two take away": (
        {"a": 1, "b": 2},
        {"x": {"a": 1}, "y": {"a": 1}},
        "a: 1\n{{- if not (or x y) }}\nb: 2\n{{- end }}\n",
    ),
    "what one changes": ({"a": 1}, {"x": {"a": 2}}, "{{- if x }}\na: 2\n{{- else }}\na: 1\n{{- end }}\n"),
    "a list of words": (
        {"a": ["one"]},
        {"x": {"a": []}},
        "{{- if x }}\na: []\n{{- else }}\na:\n  - one\n{{- end }}\n",
    ),
    "an item of a list of named things": (
        {"a": [{"name": "one"}]},
        {"x": {"a": [{"name": "one"}, {"name": "two"}]}},
        "a:\n  - name: one\n{{- if x }}\n  - name: two\n{{- end }}\n",
    ),
    "neighbours under one condition": (
        {"a": 1},
        {"x": {"a": 1, "b": 2, "c": 3}},
        "a: 1\n{{- if x }}\nb: 2\nc: 3\n{{- end }}\n",
    ),
}


@pytest.mark.parametrize(("base", "others", "text"), MERGED.values(), ids=MERGED)
def test_a_difference_stands_under_the_condition_of_whom_it_is_of(
    base: Tree, others: Mapping[str, Tree], text: str
) -> None:
    assert written(merged(base, others)) == text


def test_a_key_goes_with_the_last_of_its_items() -> None:
    """Its value would be null otherwise."""
    assert written({"env": [Conditional("x", {"name": "one"}), Items(".y")]}) == (
        "{{- if or x .y }}\nenv:\n{{- if x }}\n  - name: one\n{{- end }}\n"
        "{{- with .y }}\n  {{- toYaml . | nindent 2 }}\n{{- end }}\n{{- end }}\n"
    )


def test_values_are_written_where_they_belong() -> None:
    assert written({"image": Inline("{{ a }}"), "resources": Multiline("toYaml .b")}) == (
        "image: {{ a }}\nresources:\n  {{- toYaml .b | nindent 2 }}\n"
    )


@pytest.mark.parametrize("text", ["No replica of {{ $labels.service }} answers.", "- {{ a }}\n\n  {{ b }}\n"])
def test_what_others_write_in_braces_is_no_action_of_helm(text: str) -> None:
    shown = written({"summary": text})
    assert re.sub(r'\{\{ "\{\{" \}\}', "", shown).count("{{") == 0
    assert yaml.safe_load(shown.replace('{{ "{{" }}', "{{")) == {"summary": text}


def test_every_component_can_be_switched() -> None:
    assert list(VALUES["components"]) == [value_name(name) for name in components()]
    assert all(isinstance(value, bool) for value in VALUES["components"].values())


def paths(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if name == "services":
            yield from {f"services.<name>.{key}": None for one in value.values() for key in one}
        elif isinstance(value, dict):
            yield from (f"{name}.{key}" for key in value)
        else:
            yield name


def test_the_readme_describes_every_value_and_no_other() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| [^|]+ \| [^|]+ \|$", README.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(paths(VALUES))


def objects(schema: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    for key, part in (schema.get("properties", {}) | schema.get("$defs", {})).items():
        yield from objects(part, f"{name}.{key}".lstrip("."))
    if schema.get("type") == "object":
        yield name, schema.get("additionalProperties")


def test_a_value_that_nobody_knows_is_refused() -> None:
    lenient = {name for name, additional in objects(SCHEMA) if additional is not False}
    assert {name for name in lenient if name.rpartition(".")[2] not in FREE and name not in FREE} == set()
