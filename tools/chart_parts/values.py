"""Values of the chart: their defaults by the manifests, their descriptions by the schema."""

import copy
import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from chart_parts.parameters import WORKLOADS, Node, identity, value_name

COLUMNS: Final = 118
CLUSTER: Final = ("Cluster", "groundline-database")


def values_of(schema: Node, documents: Iterable[Node], components: Iterable[str]) -> Node:
    """Return the values with which the chart is these objects, of an overlay with these components."""
    found = {identity(document): document for document in documents}
    values = {name: _default(part) for name, part in schema["properties"].items()}
    services = schema["properties"]["services"]["properties"]
    values["services"] = {
        name: _default({"properties": _service(schema, services[name]["$ref"])}) | _workload(found, workload)
        for name, workload in ((value_name(one), one) for one in WORKLOADS)
    }
    added = {value_name(name) for name in components}
    values["components"] = {name: name in added for name in values["components"]}
    values["database"]["spec"] = found[CLUSTER]["spec"]
    return values


def _service(schema: Node, reference: str) -> Node:
    """Return the properties of a service, by the definition that a reference names."""
    properties = _referred(schema, reference)["properties"]
    return {
        key: _referred(schema, part["$ref"]) if "$ref" in part else part for key, part in properties.items()
    }


def _referred(schema: Node, reference: str) -> Node:
    definition: Node = schema["$defs"][reference.removeprefix("#/$defs/")]
    return definition


def _default(part: Node) -> Any:
    if "properties" in part and "default" not in part:
        return {name: _default(one) for name, one in part["properties"].items()}
    # Each its own: of one that is shared, YAML would make an anchor.
    return copy.deepcopy(part.get("default"))


def _workload(found: dict[tuple[str, str], Node], name: str) -> Node:
    spec = found["Deployment", name]["spec"]
    [server] = spec["template"]["spec"]["containers"]
    fixed = {"minReplicas": spec.get("replicas"), "maxReplicas": spec.get("replicas")}
    scaler = found.get(("HorizontalPodAutoscaler", name), {"spec": fixed})["spec"]
    replicas = {"min": scaler["minReplicas"], "max": scaler["maxReplicas"]}
    return {"replicas": replicas, "resources": server["resources"]}


def set_by_operators(spec: Node) -> tuple[Node, Node]:
    """Divide the database's spec into what values show, and what the template has."""
    shown = {key: spec[key] for key in ("instances", "storage", "resources")}
    shown["postgresql"] = {"parameters": spec["postgresql"]["parameters"]}
    rest = {key: value for key, value in spec.items() if key not in shown}
    rest["postgresql"] = {key: one for key, one in spec["postgresql"].items() if key != "parameters"}
    return shown, rest


def difference(values: Node, base: Node) -> Node:
    """Return what must be set over `base` for `values`."""
    found = {}
    for key, value in values.items():
        other = base.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            value = difference(value, other)
            if not value:
                continue
        elif value == other:
            continue
        found[key] = value
    return found


def as_yaml(values: Node) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=COLUMNS)


def commented(schema: Node, values: Node) -> str:
    """Return values.yaml: each value behind its description, those of services once."""
    return "".join(_commented(schema, schema["properties"], values, ""))


def _commented(schema: Node, properties: Node, values: Node, indent: str) -> Iterator[str]:
    for name, part in properties.items():
        if not indent:
            yield "\n"
        yield from _comment(part.get("description", ""), indent)
        if name == "services":
            for key, one in _service(schema, "service").items():
                yield from _comment(f"{key}: {one['description']}", indent, hanging="  ")
        if "properties" in part and name != "services":
            yield f"{indent}{name}:\n"
            yield from _commented(schema, part["properties"], values[name], f"{indent}  ")
        else:
            yield textwrap.indent(as_yaml({name: values[name]}), indent)


def _comment(text: str, indent: str, hanging: str = "") -> Iterator[str]:
    start = f"{indent}# "
    for line in textwrap.wrap(text, COLUMNS, initial_indent=start, subsequent_indent=start + hanging):
        yield f"{line}\n"


def table(schema: Node, values: Node) -> str:
    """Return the table of all values, in Markdown."""
    rows = "".join(f"| `{path}` | {default} | {text} |\n" for path, default, text in _rows(schema, values))
    return f"| value | default | meaning |\n|---|---|---|\n{rows}"


def _rows(schema: Node, values: Node) -> Iterator[tuple[str, str, str]]:
    service = _service(schema, "service")
    for name, part in schema["properties"].items():
        if name == "services":
            for key, one in service.items():
                default = f"`{json.dumps(one['default'])}`" if "default" in one else "values.yaml"
                yield f"services.<name>.{key}", default, one["description"]
        elif "properties" in part:
            for key, one in part["properties"].items():
                value = values[name][key]
                shown = "values.yaml" if isinstance(value, dict) else f"`{json.dumps(value)}`"
                yield f"{name}.{key}", shown, one["description"]
        else:
            yield name, f"`{json.dumps(values[name])}`", part["description"]
