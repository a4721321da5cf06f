"""Places in the rendered manifests that a chart's values fill in."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from project import SERVICES, VERSION

from chart_parts.trees import Conditional, Inline, Items, Multiline, Tree

type Node = dict[str, Any]

WORKLOADS: Final = (*SERVICES, "ingestor-worker")
"""Names of the Deployments that values are about."""

CONFIGURATION: Final = "groundline.configuration"
CLUSTER: Final = "groundline.cluster"
MIGRATIONS: Final = "groundline.migrations"
"""Prefix of the templates with the data of a ConfigMap; those with the database's and the Job's spec."""

BUCKET: Final = {"BACKUP_S3_BUCKET": "bucket", "BACKUP_S3_ENDPOINT": "endpoint", "AWS_REGION": "region"}
"""Variables of Weaviate, and the value that each is."""

_HASH: Final = re.compile(r"-[0-9a-z]{10}$")
_IMAGE: Final = re.compile(rf"groundline/({'|'.join(SERVICES)}):{re.escape(VERSION)}")
_POSTGRES: Final = re.compile(r"groundline/(postgres:.+)")
_DATABASE_PODS: Final = {"podSelector": {"matchLabels": {"cnpg.io/cluster": "groundline-database"}}}
_DATABASE_RULE: Final = {"to": [_DATABASE_PODS], "ports": [{"protocol": "TCP", "port": 5432}]}
_OWN_DATABASE: Final = {
    "to": [{"ipBlock": {"cidr": Inline('{{ include "groundline.databaseAddress" . }}')}}],
    "ports": [{"protocol": "TCP", "port": Inline("{{ .Values.database.port }}")}],
}
_PULL_SECRETS: Final = ".Values.image.pullSecrets"


def value_name(name: str) -> str:
    """Return the name that a service or component has in values: ingestor-worker is ingestorWorker."""
    first, *rest = name.split("-")
    return first + "".join(word.title() for word in rest)


def identity(document: Node) -> tuple[str, str]:
    """Return kind and name, the name without the hash that kustomize puts behind a ConfigMap's."""
    name = document["metadata"]["name"]
    return document["kind"], _HASH.sub("", name) if document["kind"] == "ConfigMap" else name


def configuration(name: str) -> str:
    """Return the template with the data of a ConfigMap."""
    return f"{CONFIGURATION}.{name}"


def parametrised(document: Node, of_the_database: bool) -> Node:
    """Return an object with expressions where values belong, and without a namespace: the release has one."""
    document = copy.deepcopy(document)
    kind, name = identity(document)
    document["metadata"].pop("namespace", None)
    document["metadata"]["name"] = name
    if of_the_database:
        document["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    if fill := _FILLS.get(kind):
        fill(document, name)
    replaced: Node = _replaced(document)
    return replaced


def guard(kind: str, name: str) -> str:
    """Return the condition of values under which an object of a service is there, or nothing."""
    replicas = f".Values.services.{value_name(name)}.replicas"
    if name in WORKLOADS and kind == "HorizontalPodAutoscaler":
        return f"lt (int {replicas}.min) (int {replicas}.max)"
    if name in WORKLOADS and kind == "PodDisruptionBudget":
        return f"gt (int {replicas}.min) 1"
    return ""


def _replaced(tree: Tree) -> Tree:
    """Replace what is the same everywhere: images, labels of the installer, the way to the database."""
    if tree == _DATABASE_RULE:
        return Conditional(".Values.components.postgres", tree, _OWN_DATABASE)
    match tree:
        case dict():
            return {key: _labelled(key, value) for key, value in tree.items()}
        case list():
            return [_replaced(item) for item in tree]
        case str() if match := _IMAGE.fullmatch(tree):
            return Inline(f'{{{{ include "groundline.image" (list . "{match[1]}") }}}}')
        case str() if match := _POSTGRES.fullmatch(tree):
            return Inline(f"{{{{ .Values.image.prefix }}}}{match[1]}")
    return tree


def _labelled(key: str, value: Tree) -> Tree:
    match key, value:
        case "app.kubernetes.io/instance", "groundline":
            return Inline("{{ .Release.Name }}")
        case "app.kubernetes.io/managed-by", "kustomize":
            return Inline("{{ .Release.Service }}")
    return _replaced(value)


def _deployment(document: Node, name: str) -> None:
    _pod(document["spec"]["template"])
    if name not in WORKLOADS:
        return
    values = f".Values.services.{value_name(name)}"
    fixed = f"ge (int {values}.replicas.min) (int {values}.replicas.max)"
    document["spec"]["replicas"] = Conditional(fixed, Inline(f"{{{{ {values}.replicas.min }}}}"))
    [server] = document["spec"]["template"]["spec"]["containers"]
    server["resources"] = Multiline(f"toYaml {values}.resources")
    server["env"] = [*server.get("env", []), Items(f"{values}.env")]


def _pod(template: Node) -> None:
    """Name ConfigMaps without a hash, and put one of their content beside the pod, which rolls it out."""
    checksums = {}
    for reference in _config_maps(template["spec"]):
        reference["name"] = name = _HASH.sub("", reference["name"])
        checksums[f"checksum/{name}"] = Inline(f'{{{{ include "{configuration(name)}" . | sha256sum }}}}')
    if checksums:
        template["metadata"]["annotations"] = checksums
    for container in template["spec"]["containers"]:
        if "env" in container:
            # Whichever way kustomize adds what a component brings.
            container["env"].sort(key=lambda entry: entry["name"])


def _config_maps(spec: Node) -> Iterator[Node]:
    """Yield each reference of a pod to a ConfigMap."""
    for container in (*spec.get("initContainers", []), *spec["containers"]):
        yield from (one["configMapRef"] for one in container.get("envFrom", []))
    yield from (one["configMap"] for one in spec.get("volumes", []) if "configMap" in one)


def _job(document: Node, name: str) -> None:
    document["metadata"]["name"] = Inline(f'{name}-{{{{ include "{MIGRATIONS}" . | sha256sum | trunc 8 }}}}')
    _pod(document["spec"]["template"])


def _config_map(document: Node, name: str) -> None:
    data = document["data"]
    for key, value in BUCKET.items():
        if key in data:
            data[key] = Inline(f"{{{{ .Values.weaviateBackup.{value} | quote }}}}")
    if name == "otel-collector":
        own = ".Values.otelCollector.configuration"
        data["collector.yaml"] = Conditional(own, Inline(f"{{{{ {own} | quote }}}}"), data["collector.yaml"])


def _account(document: Node, name: str) -> None:
    document["imagePullSecrets"] = Conditional(_PULL_SECRETS, Multiline(f"toYaml {_PULL_SECRETS}"))


def _scaler(document: Node, name: str) -> None:
    for key in ("minReplicas", "maxReplicas"):
        path = f".Values.services.{value_name(name)}.replicas.{key.removesuffix('Replicas')}"
        document["spec"][key] = Inline(f"{{{{ {path} }}}}")


_FILLS: Final[Mapping[str, Callable[[Node, str], None]]] = {
    "ConfigMap": _config_map,
    "CronJob": lambda document, name: _pod(document["spec"]["jobTemplate"]["spec"]["template"]),
    "Deployment": _deployment,
    "HorizontalPodAutoscaler": _scaler,
    "Job": _job,
    "ServiceAccount": _account,
    "StatefulSet": lambda document, name: _pod(document["spec"]["template"]),
}
