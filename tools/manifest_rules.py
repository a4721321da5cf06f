"""What must hold of the rendered manifests and the schemas of Kubernetes cannot say.

Everything about the services is read from their code: settings, ports, health names, and whom they call.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import yaml
from google.protobuf.descriptor import FileDescriptor
from groundline.v1 import (
    coordinator_service_pb2,
    generator_service_pb2,
    ingestor_service_pb2,
    reranker_service_pb2,
    retriever_service_pb2,
)
from groundline_bridge.settings import BridgeSettings
from groundline_coordinator.settings import CoordinatorMigrationSettings, CoordinatorSettings
from groundline_database import DatabaseSettings
from groundline_gateway.following import KeyDatabaseSettings
from groundline_gateway.settings import GatewaySettings
from groundline_generator.settings import GeneratorSettings
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import LexicalIndexError
from groundline_lexical.detection import BACKENDS
from groundline_reranker.settings import RerankerSettings
from groundline_retriever.settings import RetrieverSettings
from groundline_runtime.health import LIVENESS
from groundline_runtime.settings import ServiceSettings, Settings, SettingsError, load_settings
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent

type Node = dict[str, Any]
type Edge = tuple[str, int]

GRPC_PORT = 50051
DATABASE, DATABASE_PORT, DATABASE_METRICS_PORT = "database", 5432, 9187
COLLECTOR, COLLECTOR_PORT = "otel-collector", 4317
WEAVIATE, WEAVIATE_HTTP_PORT = "weaviate", 8080
DNS = "dns"
INTERNET = "the internet"
LOOPBACK = "127.0.0.1"
ANY_ADDRESS = ("0.0.0.0", "::", "[::]")  # noqa: S104
CRAWLER = "ingestor-worker"

PROBES = ("tcpSocket", "httpGet", "grpc")
"""Kinds of probes that ask a port."""

SERVER = "server"
"""Name of the container that runs our code; beside it a component may put others."""

OTHER_CONNECTIONS = 22
"""What PostgreSQL keeps for superusers (3), the standbys' and the operator's, and the migrations' two."""

FOREIGN_VARIABLES = {"GRPC_VERBOSITY"}
"""Environment variables that are not settings of a service."""

SECRETS = {
    ("groundline-database-app", "uri"): "postgresql://groundline:example@database/groundline",
    ("groundline-gateway", "database-url"): "postgresql://gateway:password@database/groundline",
    ("groundline-gateway", "api-keys"): json.dumps(
        [{"key": "an-example-of-a-key", "client": "example", "principals": ["user:example"]}]
    ),
    ("groundline-weaviate", "api-key"): "an-example-of-a-key",
    ("groundline-weaviate-backup", "access-key-id"): "example",
    ("groundline-weaviate-backup", "secret-access-key"): "example",
}
"""Keys of the Secrets an operator makes (deploy/README.md), with a value of the right form."""


@dataclass(frozen=True)
class Process:
    """What runs in a workload."""

    settings: type[Settings]
    descriptor: FileDescriptor | None = None
    """The file with its gRPC service; without one it serves HTTP."""
    readiness_path: str = "/"
    """Where HTTP says whether it is ready; by default at an address that is about this process alone."""
    liveness_path: str = "/"
    """Where HTTP says whether it is alive."""

    @property
    def grpc_service(self) -> str | None:
        if self.descriptor is None:
            return None
        [service] = self.descriptor.services_by_name.values()
        return str(service.full_name)

    @property
    def drains_itself(self) -> bool:
        """Whether SIGTERM starts the runtime's drain."""
        return issubclass(self.settings, ServiceSettings)


PROCESSES: Mapping[str, Process] = {
    "coordinator": Process(CoordinatorSettings, coordinator_service_pb2.DESCRIPTOR),
    "retriever": Process(RetrieverSettings, retriever_service_pb2.DESCRIPTOR),
    "reranker": Process(RerankerSettings, reranker_service_pb2.DESCRIPTOR),
    "generator": Process(GeneratorSettings, generator_service_pb2.DESCRIPTOR),
    "ingestor": Process(IngestorSettings, ingestor_service_pb2.DESCRIPTOR),
    "ingestor-worker": Process(IngestorSettings, ingestor_service_pb2.DESCRIPTOR),
    "bridge": Process(BridgeSettings, readiness_path="/readyz", liveness_path="/livez"),
    "gateway": Process(GatewaySettings),
    "migrations": Process(CoordinatorMigrationSettings),
}
SERVICES = ("coordinator", "retriever", "reranker", "generator", "ingestor", "bridge")
_ADDRESS = re.compile(rf"({'|'.join(SERVICES)})_(?:target|address)")


@dataclass(frozen=True)
class Manifests:
    """The objects of one rendered target."""

    name: str
    documents: tuple[Node, ...]
    complete: bool = False
    """Whether it holds the whole suite, so that nothing may point outside of it."""

    def of(self, *kinds: str) -> Iterator[Node]:
        return (document for document in self.documents if document["kind"] in kinds)

    def find(self, kind: str, name: str) -> Node | None:
        return next((one for one in self.of(kind) if one["metadata"]["name"] == name), None)

    def workloads(self) -> Iterator[Node]:
        return self.of("Deployment", "StatefulSet", "Job", "CronJob")

    def own_workloads(self) -> Iterator[tuple[str, Node, Process]]:
        """Name, object and process of the workloads that run our code."""
        for workload in self.workloads():
            if process := PROCESSES.get(workload["metadata"]["name"]):
                yield workload["metadata"]["name"], workload, process


def edges(process: Process) -> set[Edge]:
    """Whom the process opens channels or connections to, as its settings tell."""
    found: set[Edge] = set()
    for field in process.settings.model_fields:
        if match := _ADDRESS.fullmatch(field):
            found.add((match[1], GRPC_PORT))
        elif field == "database_url":
            found.add((DATABASE, DATABASE_PORT))
        elif field == "otlp_endpoint":
            found.add((COLLECTOR, COLLECTOR_PORT))
    return found


def optional_edges(name: str, process: Process) -> set[Edge]:
    """Where the process may go besides, when an operator wants it: to hosted models, to sites it crawls."""
    found: set[Edge] = set()
    if any(field.endswith("_base_url") or field == "embedding" for field in process.settings.model_fields):
        found.add((INTERNET, 443))
    if name == CRAWLER:
        found |= {(INTERNET, 80), (INTERNET, 443)}
    return found


def variables(settings: type[Settings]) -> set[str]:
    """Every environment variable that the settings are read from."""
    found: set[str] = set()

    def add(names: tuple[str, ...], annotation: Any) -> None:
        found.update(names)
        # A group may be optional: one of a union's members.
        for each in (annotation, *get_args(annotation)):
            if isinstance(each, type) and issubclass(each, BaseModel):
                for inner, field in each.model_fields.items():
                    add(tuple(f"{name}__{inner.upper()}" for name in names), field.annotation)

    for name, field in settings.model_fields.items():
        add(settings.variable_names(name), field.annotation)
    return found


def weaviate_edges(manifests: Manifests, process: Process, container: Node) -> set[Edge]:
    """Addresses of Weaviate that the process is given."""
    return _weaviate_addresses(process, environment(manifests, container)[0])


def _weaviate_addresses(process: Process, values: Mapping[str, str]) -> set[Edge]:
    try:
        given = getattr(settings_of(process, values), "weaviate", None)
    except SettingsError:
        return set()
    if given is None:
        return set()
    host, _, port = given.grpc_target.removeprefix("dns:///").rpartition(":")
    return {(host, int(port)), (given.http_url.host, given.http_url.port)}


def _template(workload: Node) -> Node:
    spec = workload["spec"]["jobTemplate"]["spec"] if workload["kind"] == "CronJob" else workload["spec"]
    template: Node = spec["template"]
    return template


def pod(workload: Node) -> Node:
    spec: Node = _template(workload)["spec"]
    return spec


def server(workload: Node) -> Node | None:
    return next((one for one in pod(workload)["containers"] if one["name"] == SERVER), None)


def pod_labels(workload: Node) -> dict[str, str]:
    labels: dict[str, str] = _template(workload)["metadata"].get("labels", {})
    return labels


def is_behind_proxy(workload: Node) -> bool:
    """Whether a sidecar carries the pod's calls, so that its addresses are on loopback."""
    return any(one["name"] == "mtls" for one in pod(workload).get("initContainers", []))


def environment(manifests: Manifests, container: Node) -> tuple[dict[str, str], list[str]]:
    """What the container finds in its environment, and references that lead nowhere."""
    found: dict[str, str] = {}
    problems = []
    for source in container.get("envFrom", []):
        config = manifests.find("ConfigMap", source.get("configMapRef", {}).get("name", ""))
        if config is None:
            problems.append(f"envFrom names what is not there: {source}")
        else:
            found |= config["data"]
    for entry in container.get("env", []):
        reference = entry.get("valueFrom", {}).get("secretKeyRef")
        if reference is None:
            found[entry["name"]] = entry.get("value", "")
        elif (key := (reference["name"], reference["key"])) in SECRETS:
            found[entry["name"]] = SECRETS[key]
        else:
            problems.append(f"{entry['name']} is from a Secret that nobody makes: {'/'.join(key)}")
    return found, problems


@contextmanager
def _only(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def settings_of(process: Process, values: Mapping[str, str]) -> Settings:
    """The settings as the process reads them in that environment. Raises SettingsError."""
    return _settings_of(process.settings, frozenset(values.items()))


@cache
def _settings_of(kind: type[Settings], values: frozenset[tuple[str, str]]) -> Settings:
    """Loaded once for all rules: that takes most of their time."""
    with _only(dict(values)):
        return load_settings(kind)


def settings_problems(process: Process, values: Mapping[str, str]) -> Iterator[str]:
    """Names that are no settings, values that are wrong, required settings that are missing."""
    for name in sorted(values.keys() - variables(process.settings) - FOREIGN_VARIABLES):
        yield f"{name} is not a setting of {process.settings.service_name()}"
    try:
        settings_of(process, values)
    except SettingsError as error:
        yield str(error)


# Rules. Each takes the objects of a target and yields what is wrong.


def environment_is_settings(manifests: Manifests) -> Iterator[str]:
    for name, workload, process in manifests.own_workloads():
        container = server(workload)
        if container is None:
            yield f"{name}: no container named {SERVER}"
            continue
        values, problems = environment(manifests, container)
        yield from (f"{name}: {problem}" for problem in (*problems, *settings_problems(process, values)))
    used = {
        source["configMapRef"]["name"]
        for workload in manifests.workloads()
        for container in pod(workload)["containers"]
        for source in container.get("envFrom", [])
        if "configMapRef" in source
    } | {
        volume["configMap"]["name"]
        for workload in manifests.workloads()
        for volume in pod(workload).get("volumes", [])
        if "configMap" in volume
    }
    for config in manifests.of("ConfigMap"):
        if config["metadata"]["name"] not in used:
            yield f"ConfigMap {config['metadata']['name']}: nobody reads it"


def ports_match(manifests: Manifests) -> Iterator[str]:
    for name, workload, process in manifests.own_workloads():
        container = server(workload)
        if container is None or "ports" not in container:
            continue
        try:
            settings: Any = settings_of(process, environment(manifests, container)[0])
        except SettingsError:
            continue
        if settings.host not in ANY_ADDRESS:
            yield f"{name}: listens on {settings.host}, where no other pod reaches it"
        open_ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        if settings.port not in open_ports.values():
            yield f"{name}: listens on {settings.port}, its container declares {open_ports}"
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            handler = container.get(probe, {})
            port = (handler.get("grpc") or handler.get("httpGet") or {}).get("port")
            if open_ports.get(port, port) != settings.port:
                yield f"{name}: {probe} asks port {port}, the process listens on {settings.port}"
    for service in manifests.of("Service"):
        selected = [
            one
            for one in manifests.of("Deployment", "StatefulSet")
            if service["spec"]["selector"].items() <= pod_labels(one).items()
        ]
        for workload in selected:
            containers = [*pod(workload)["containers"], *pod(workload).get("initContainers", [])]
            open_ports = {
                port["name"]: port["containerPort"] for one in containers for port in one.get("ports", [])
            }
            for port in service["spec"]["ports"]:
                number = open_ports.get(port["targetPort"])
                title = f"Service {service['metadata']['name']}"
                if number is None:
                    yield f"{title}: no container has the port {port['targetPort']}"
                elif service["spec"].get("clusterIP") == "None" and number != port["port"]:
                    yield f"{title}: headless, so {port['port']} is not translated to {number}"
        if service["metadata"]["name"] in SERVICES and service["spec"].get("clusterIP") != "None":
            name = service["metadata"]["name"]
            yield f"Service {name}: not headless, so clients see one address, not all replicas"


def probes_reach_the_process(manifests: Manifests) -> Iterator[str]:
    """The kubelet asks the pod's address: a port on loopback never answers it."""
    for workload in manifests.workloads():
        for container in (*pod(workload)["containers"], *pod(workload).get("initContainers", [])):
            title = f"{workload['metadata']['name']}/{container['name']}"
            if container["name"] == SERVER:
                # ports_match compares with the process's own settings.
                continue
            named = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
            listening = _listeners(manifests, workload, container)
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                handler = container.get(probe, {})
                asked = next((handler[kind]["port"] for kind in PROBES if kind in handler), None)
                if asked is None:
                    continue
                number = named.get(asked, asked)
                hosts = {host for host, port in listening if port == number}
                if not hosts & set(ANY_ADDRESS):
                    where = " and ".join(sorted(hosts)) or "no address"
                    yield f"{title}: {probe} asks port {number} of the pod's address, where {where} listens"


def _listeners(manifests: Manifests, workload: Node, container: Node) -> set[tuple[str, int]]:
    """Addresses that a program beside ours listens on, by its arguments and its mounted configuration."""
    volumes = {volume["name"]: volume for volume in pod(workload).get("volumes", [])}
    arguments = container.get("args", [])
    options = dict(pairwise(arguments))
    found = {(options["--host"], int(options["--port"]))} if {"--host", "--port"} <= options.keys() else set()
    for mount in container.get("volumeMounts", []):
        name = volumes.get(mount["name"], {}).get("configMap", {}).get("name", "")
        config = manifests.find("ConfigMap", name)
        for text in config["data"].values() if config else ():
            found |= set(_addresses(yaml.safe_load(text)))
    return found


def _addresses(node: Any) -> Iterator[tuple[str, int]]:
    """Where Envoy's listeners and the collector's receivers and extensions listen."""
    if isinstance(node, list):
        for item in node:
            yield from _addresses(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "clusters":
                # Envoy's other ends.
                continue
            if key == "socket_address":
                yield value["address"], value["port_value"]
            elif key == "endpoint" and isinstance(value, str):
                host, _, port = value.rpartition(":")
                yield host, int(port)
            else:
                yield from _addresses(value)


def addresses_match(manifests: Manifests) -> Iterator[str]:
    """Configured addresses of other services are the names and ports of their Services."""
    for name, workload, process in manifests.own_workloads():
        container = server(workload)
        values = environment(manifests, container)[0] if container else {}
        for field in process.settings.model_fields:
            match = _ADDRESS.fullmatch(field)
            given = next(
                (values[one] for one in process.settings.variable_names(field) if one in values), None
            )
            if match is None or given is None:
                continue
            host, _, port = given.removeprefix("dns:///").rpartition(":")
            if is_behind_proxy(workload):
                if host != LOOPBACK:
                    yield f"{name}: {field} {given} passes by the proxy"
                continue
            if (host, port) != (match[1], str(GRPC_PORT)):
                yield f"{name}: {field} is {given}, the Service is {match[1]}:{GRPC_PORT}"
            if field.endswith("_target") and not given.startswith("dns:///"):
                yield f"{name}: {field} {given} does not resolve to every replica; start it with dns:///"
            if manifests.complete and manifests.find("Service", host) is None:
                yield f"{name}: {field} names the Service {host}, which is not there"


def probes_ask_health(manifests: Manifests) -> Iterator[str]:
    for name, workload, process in manifests.own_workloads():
        container = server(workload)
        if container is None or workload["kind"] != "Deployment":
            continue
        by_grpc = process.grpc_service is not None
        liveness, readiness = (
            (LIVENESS, process.grpc_service) if by_grpc else (process.liveness_path, process.readiness_path)
        )
        expected = {"startupProbe": liveness, "livenessProbe": liveness, "readinessProbe": readiness}
        for probe, service in expected.items():
            handler = container.get(probe)
            if handler is None:
                yield f"{name}: no {probe}"
            elif not by_grpc:
                if handler.get("httpGet", {}).get("path") != service:
                    yield f"{name}: {probe} has to ask GET {service}, which is about this process alone"
            elif handler.get("grpc", {}).get("service") != service:
                yield f"{name}: {probe} asks for {handler.get('grpc', {}).get('service')!r}, not {service!r}"


def selectors_match(manifests: Manifests) -> Iterator[str]:
    workloads = list(manifests.workloads())
    for workload in manifests.of("Deployment", "StatefulSet"):
        if not workload["spec"]["selector"]["matchLabels"].items() <= pod_labels(workload).items():
            yield f"{workload['kind']} {workload['metadata']['name']}: its selector does not match its pods"
    own: dict[str, Callable[[Node], dict[str, str]]] = {
        "Service": lambda document: document["spec"]["selector"],
        "PodDisruptionBudget": lambda document: document["spec"]["selector"]["matchLabels"],
        "NetworkPolicy": lambda document: document["spec"]["podSelector"].get("matchLabels", {}),
    }
    for kind, selector_of in own.items():
        for document in manifests.of(kind):
            selector = selector_of(document)
            matches = [
                one["metadata"]["name"] for one in workloads if selector.items() <= pod_labels(one).items()
            ]
            title = f"{kind} {document['metadata']['name']}"
            if not selector or "cnpg.io/cluster" in selector:
                continue
            if not matches:
                yield f"{title}: selects no pod"
            elif len(matches) > 1:
                yield f"{title}: selects the pods of {', '.join(matches)}"
    for autoscaler in manifests.of("HorizontalPodAutoscaler"):
        name, target = autoscaler["metadata"]["name"], autoscaler["spec"]["scaleTargetRef"]
        if manifests.find(target["kind"], target["name"]) is None:
            yield f"HorizontalPodAutoscaler {name}: no {target['kind']} {target['name']}"
    for workload in workloads:
        account = pod(workload).get("serviceAccountName", "default")
        if manifests.find("ServiceAccount", account) is None:
            yield f"{workload['kind']} {workload['metadata']['name']}: no ServiceAccount {account}"


# What is not inside: an address block that left a private range in it would reach the cluster itself.
_PUBLIC_BLOCKS = {
    json.dumps(block, sort_keys=True): INTERNET
    for block in (
        {
            "cidr": "0.0.0.0/0",
            "except": [
                "10.0.0.0/8",
                "100.64.0.0/10",
                "127.0.0.0/8",
                "169.254.0.0/16",
                "172.16.0.0/12",
                "192.168.0.0/16",
            ],
        },
        {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]},
    )
}


def _peers(rule: Node, side: str) -> set[str]:
    """Names of the other ends that a NetworkPolicy rule allows; `anyone` for a rule without peers."""
    peers = set()
    for peer in rule.get(side, [{}]):
        labels = peer.get("podSelector", {}).get("matchLabels", {})
        if "ipBlock" in peer:
            peers.add(_PUBLIC_BLOCKS.get(json.dumps(peer["ipBlock"], sort_keys=True), json.dumps(peer)))
        elif "namespaceSelector" in peer:
            peers.add(DNS if labels.get("k8s-app") == "kube-dns" else json.dumps(peer, sort_keys=True))
        elif labels.get("cnpg.io/cluster"):
            peers.add(DATABASE)
        else:
            peers.add(labels.get("app.kubernetes.io/name", "anyone"))
    return peers


def _allowed(policy: Node, direction: str, side: str) -> set[Edge]:
    return {
        (peer, port["port"])
        for rule in policy["spec"].get(direction, [])
        for peer in _peers(rule, side)
        for port in rule.get("ports", [{"port": 0}])
    }


def network_edges_are_channels(manifests: Manifests) -> Iterator[str]:
    callers: dict[str, set[str]] = {}
    for name, process in PROCESSES.items():
        for callee, _ in edges(process):
            callers.setdefault(callee, set()).add(name)
    for name, workload, process in manifests.own_workloads():
        policy = manifests.find("NetworkPolicy", name)
        if policy is None:
            yield f"{name}: no NetworkPolicy"
            continue
        if sorted(policy["spec"]["policyTypes"]) != ["Egress", "Ingress"]:
            yield f"NetworkPolicy {name}: leaves a direction open"
        policies = _adding_up(manifests, policy)
        outgoing = {edge for one in policies for edge in _allowed(one, "egress", "to")}
        to_weaviate = {
            (WEAVIATE, port) for _, port in weaviate_edges(manifests, process, server(workload) or {})
        }
        expected = edges(process) | to_weaviate | {(DNS, 53)} | (outgoing & optional_edges(name, process))
        yield from _differences(name, "egress to", outgoing, expected)
        incoming = {(caller, GRPC_PORT) for caller in callers.get(name, ())}
        if name == "gateway":
            incoming = {("anyone", 8080)}
        allowed = {edge for one in policies for edge in _allowed(one, "ingress", "from")}
        yield from _differences(name, "ingress from", allowed, incoming)
    for name, port in ((DATABASE, DATABASE_PORT), (COLLECTOR, COLLECTOR_PORT)):
        if policy := manifests.find("NetworkPolicy", name):
            allowed = {edge for edge in _allowed(policy, "ingress", "from") if edge[0] in PROCESSES}
            expected = {(caller, port) for caller in callers[name]}
            yield from _differences(name, "ingress from", allowed, expected)
    if policy := manifests.find("NetworkPolicy", DATABASE):
        ports = {port for _, port in _allowed(policy, "ingress", "from")}
        if DATABASE_METRICS_PORT not in ports:
            yield f"NetworkPolicy {DATABASE}: nobody may read the metrics at {DATABASE_METRICS_PORT}"
    for policy in manifests.of("NetworkPolicy"):
        for direction in ("ingress", "egress"):
            if policy["spec"].get(direction) == []:
                name = policy["metadata"]["name"]
                yield f"NetworkPolicy {name}: {direction}: [] is not stored, so no diff is ever empty"
    if manifests.complete:
        denied = [one for one in manifests.of("NetworkPolicy") if one["spec"]["podSelector"] == {}]
        if not any(sorted(one["spec"]["policyTypes"]) == ["Egress", "Ingress"] for one in denied):
            yield "no NetworkPolicy denies what is not allowed"
        if any(one["spec"].get("ingress") or one["spec"].get("egress") for one in denied):
            yield "the NetworkPolicy of all pods allows something"


def _adding_up(manifests: Manifests, policy: Node) -> list[Node]:
    """All policies of the pods of this one."""
    selected = policy["spec"]["podSelector"]["matchLabels"]
    return [
        one
        for one in manifests.of("NetworkPolicy")
        if one["spec"]["podSelector"].get("matchLabels") == selected
    ]


def weaviate_is_reached(manifests: Manifests) -> Iterator[str]:
    """Clients reach its Services, and the nodes each other on their own ports; nobody else does."""
    node = manifests.find("StatefulSet", WEAVIATE)
    clients = {
        (name, *edge)
        for name, workload, process in manifests.own_workloads()
        if (container := server(workload))
        for edge in weaviate_edges(manifests, process, container)
    }
    for job in manifests.of("CronJob"):
        name = job["metadata"]["name"]
        called = {(name, *edge) for one in pod(job)["containers"] for edge in _called(manifests, one)}
        clients |= called
        yield from _policy_differences(manifests, name, set(), {(WEAVIATE, port) for _, _, port in called})
    if node is None:
        yield from (f"{name}: no Weaviate at {host}:{port}" for name, host, port in sorted(clients))
        return
    for name, host, port in sorted(clients):
        service = manifests.find("Service", host)
        if service is None or port not in (one["port"] for one in service["spec"]["ports"]):
            yield f"{name}: no Service {host}:{port}"
        elif service["spec"].get("publishNotReadyAddresses"):
            yield f"{name}: {host} leads to nodes that are not ready"
    [container] = pod(node)["containers"]
    values, problems = environment(manifests, container)
    yield from (f"{WEAVIATE}: {problem}" for problem in problems)
    between = {
        (int(values.get(variable, 0)), protocol)
        for variable, protocols in _BETWEEN_NODES.items()
        for protocol in protocols
    }
    declared = {(port["containerPort"], port.get("protocol", "TCP")) for port in container["ports"]}
    yield from (
        f"{WEAVIATE}: does not declare {port}/{protocol}" for port, protocol in sorted(between - declared)
    )
    policy = manifests.find("NetworkPolicy", WEAVIATE)
    if policy is None:
        yield f"{WEAVIATE}: no NetworkPolicy"
        return
    if sorted(policy["spec"]["policyTypes"]) != ["Egress", "Ingress"]:
        yield f"NetworkPolicy {WEAVIATE}: leaves a direction open"
    for direction, side in (("ingress", "from"), ("egress", "to")):
        allowed = {
            (port["port"], port.get("protocol", "TCP"))
            for one in _adding_up(manifests, policy)
            for rule in one["spec"].get(direction, [])
            if WEAVIATE in _peers(rule, side)
            for port in rule.get("ports", [{"port": 0}])
        }
        for port, protocol in sorted(between ^ allowed):
            wrong = "lacks" if (port, protocol) in between else "allows"
            yield f"NetworkPolicy {WEAVIATE}: {wrong} {direction} of the nodes at {port}/{protocol}"
    bucket = {(INTERNET, 443)} if values.get("ENABLE_MODULES") == "backup-s3" else set()
    callers = {(name, port) for name, _, port in clients}
    yield from _policy_differences(manifests, WEAVIATE, callers, bucket)


def _called(manifests: Manifests, container: Node) -> set[Edge]:
    """Addresses in the environment of a program that is not ours."""
    urls = (urlsplit(value) for value in environment(manifests, container)[0].values())
    return {(url.hostname, url.port) for url in urls if url.hostname and url.port}


def _policy_differences(
    manifests: Manifests, name: str, incoming: set[Edge], outgoing: set[Edge]
) -> Iterator[str]:
    """What the policies of these pods allow otherwise, but for what is among themselves and DNS."""
    policy = manifests.find("NetworkPolicy", name)
    if policy is None:
        yield f"{name}: no NetworkPolicy"
        return
    policies = _adding_up(manifests, policy)
    for direction, side, expected in (
        ("ingress", "from", incoming),
        ("egress", "to", outgoing | {(DNS, 53)}),
    ):
        allowed = {edge for one in policies for edge in _allowed(one, direction, side) if edge[0] != name}
        yield from _differences(name, f"{direction} {side}", allowed, expected)


_BETWEEN_NODES = {
    "CLUSTER_GOSSIP_BIND_PORT": ("TCP", "UDP"),
    "CLUSTER_DATA_BIND_PORT": ("TCP",),
    "RAFT_PORT": ("TCP",),
    "RAFT_INTERNAL_RPC_PORT": ("TCP",),
}
"""Variable with a port on which a node of Weaviate is called by the others → protocols."""


def weaviate_nodes_are_one_cluster(manifests: Manifests) -> Iterator[str]:
    """Each node is told of all, finds the others before they are ready, and has memory beside Go's."""
    for node in manifests.of("StatefulSet"):
        name, spec = node["metadata"]["name"], node["spec"]
        service = manifests.find("Service", spec["serviceName"])
        if service is None or service["spec"].get("clusterIP") != "None":
            yield f"{name}: {spec['serviceName']} is no headless Service"
        elif not service["spec"].get("publishNotReadyAddresses"):
            yield f"{name}: {spec['serviceName']} hides nodes that are not ready, as all are alone"
        [container] = pod(node)["containers"]
        values, _ = environment(manifests, container)
        members = [f"{name}-{number}:{values.get('RAFT_PORT')}" for number in range(spec["replicas"])]
        if values.get("RAFT_JOIN", "").split(",") != members:
            yield f"{name}: RAFT_JOIN is not {','.join(members)}"
        if values.get("RAFT_BOOTSTRAP_EXPECT") != str(spec["replicas"]):
            yield f"{name}: RAFT_BOOTSTRAP_EXPECT is not {spec['replicas']}"
        if values.get("CLUSTER_JOIN") != spec["serviceName"]:
            yield f"{name}: CLUSTER_JOIN is not {spec['serviceName']}"
        limits = container.get("resources", {}).get("limits", {})
        aim, limit = (_bytes(size) for size in (values.get("GOMEMLIMIT", "0"), limits.get("memory", "0")))
        if not 0 < aim < limit:
            yield f"{name}: GOMEMLIMIT leaves nothing of the limit of memory"
        if spec.get("podManagementPolicy") != "Parallel":
            yield f"{name}: waits for a first node that is not ready alone"
        for client, workload, process in manifests.own_workloads():
            try:
                settings = settings_of(process, environment(manifests, server(workload) or {})[0])
            except SettingsError:
                continue
            weaviate = getattr(settings, "weaviate", None)
            if weaviate is not None and weaviate.replication_factor != spec["replicas"]:
                copies = f"{weaviate.replication_factor} replicas of each object"
                yield f"{client}: {copies} on {spec['replicas']} nodes"


def _bytes(size: str) -> int:
    """Of a size in Go's or Kubernetes' words: 3GiB, 4Gi."""
    number = size.removesuffix("B").removesuffix("Gi")
    return int(number) * 1024**3


def _differences(name: str, what: str, allowed: set[Edge], expected: set[Edge]) -> Iterator[str]:
    for peer, port in sorted(expected - allowed):
        yield f"NetworkPolicy {name}: lacks {what} {peer}:{port}, which the code opens"
    for peer, port in sorted(allowed - expected):
        yield f"NetworkPolicy {name}: allows {what} {peer}:{port}, which no code opens"


def scaling_agrees(manifests: Manifests) -> Iterator[str]:
    for autoscaler in manifests.of("HorizontalPodAutoscaler"):
        name, spec = autoscaler["metadata"]["name"], autoscaler["spec"]
        if not 1 <= spec["minReplicas"] <= spec["maxReplicas"]:
            yield f"HorizontalPodAutoscaler {name}: {spec['minReplicas']} to {spec['maxReplicas']} replicas"
        workload = manifests.find("Deployment", spec["scaleTargetRef"]["name"])
        if workload is None:
            continue
        if "replicas" in workload["spec"]:
            yield f"Deployment {name}: replicas would undo the autoscaler at every apply"
        requests = (server(workload) or {}).get("resources", {}).get("requests", {})
        for metric in spec["metrics"]:
            resource = metric.get("resource", {}).get("name")
            if resource and resource not in requests:
                yield f"HorizontalPodAutoscaler {name}: no request for {resource} to compare with"
    for budget in manifests.of("PodDisruptionBudget"):
        name, spec = budget["metadata"]["name"], budget["spec"]
        smallest = _smallest(manifests, spec["selector"]["matchLabels"])
        if smallest is None:
            continue
        unavailable = spec.get("maxUnavailable", 0)
        if "minAvailable" in spec:
            unavailable = smallest - spec["minAvailable"]
        if unavailable < 1:
            yield f"PodDisruptionBudget {name}: with {smallest} replicas no node could be drained"
        if unavailable >= smallest:
            yield f"PodDisruptionBudget {name}: lets all {smallest} replicas go at once"
    for cluster in manifests.of("Cluster"):
        name, spec = cluster["metadata"]["name"], cluster["spec"]
        if spec["instances"] == 1 and spec.get("enablePDB", True):
            yield f"Cluster {name}: its budget for a single instance blocks every drain; set enablePDB: false"
        if spec["instances"] > 1 and not spec.get("enablePDB", True):
            yield f"Cluster {name}: no budget, so a drain may take all instances at once"


def connections(settings: Settings) -> int:
    """How many connections to the database a process with these settings may have open."""
    match settings:
        case GatewaySettings():
            # It follows the keys in a pool of its own.
            size: int = KeyDatabaseSettings.model_fields["pool_max_size"].default
            return size + 1 if settings.database_url is not None else 0
        case IngestorSettings():
            # A process with workers also listens for what is handed in.
            return settings.pool_max_size + 1 + bool(settings.workers)
        case DatabaseSettings():
            return settings.pool_max_size + 1
    return 0


def connections_fit(manifests: Manifests) -> Iterator[str]:
    """What all replicas open at the autoscalers' maxima, with one more in a rollout, fits the database."""
    clusters = list(manifests.of("Cluster"))
    if not manifests.complete or not clusters:
        return
    shares = {"others": OTHER_CONNECTIONS}
    for name, workload, process in manifests.own_workloads():
        container = server(workload)
        if container is None or workload["kind"] != "Deployment":
            continue
        try:
            settings = settings_of(process, environment(manifests, container)[0])
        except SettingsError:
            continue
        autoscaler = manifests.find("HorizontalPodAutoscaler", name)
        largest = autoscaler["spec"]["maxReplicas"] if autoscaler else workload["spec"].get("replicas", 1)
        if opened := connections(settings):
            shares[name] = (largest + 1) * opened
    for cluster in clusters:
        allowed = int(cluster["spec"]["postgresql"]["parameters"]["max_connections"])
        if sum(shares.values()) > allowed:
            terms = " + ".join(f"{name} {share}" for name, share in shares.items())
            yield f"max_connections is {allowed}, all replicas may open {sum(shares.values())}: {terms}"


def reads_go_to_standbys(manifests: Manifests) -> Iterator[str]:
    """Reads are sent to the read-only Service that the operator makes for a cluster which has standbys."""
    if not manifests.complete:
        return
    instances = {one["metadata"]["name"]: one["spec"]["instances"] for one in manifests.of("Cluster")}
    for name, workload, process in manifests.own_workloads():
        if "read_database_url" not in process.settings.model_fields:
            continue
        container = server(workload)
        values = environment(manifests, container)[0] if container else {}
        for variable in process.settings.variable_names("read_database_url"):
            host = urlsplit(values.get(variable, "")).hostname
            if host is None:
                continue
            cluster = host.removesuffix("-ro")
            if not host.endswith("-ro") or cluster not in instances:
                yield f"{name}: {variable} names {host}, which is no cluster's read-only Service"
            elif instances[cluster] < 2:
                yield f"{name}: {variable} names {host}, but {cluster} has no standby"


def deleting_keeps_the_data(manifests: Manifests) -> Iterator[str]:
    """`kubectl delete -k` on the services must take neither the database nor the namespace that holds it."""
    if not manifests.name.startswith("overlays/") or not list(manifests.of("Deployment")):
        return
    for document in manifests.of("Namespace", "Cluster"):
        name = f"{document['kind']} {document['metadata']['name']}"
        yield f"{name}: deleted together with the services, and the data with it"


def _smallest(manifests: Manifests, selector: dict[str, str]) -> int | None:
    """The fewest replicas of the Deployment or StatefulSet that is selected."""
    for workload in manifests.of("Deployment", "StatefulSet"):
        if selector.items() <= pod_labels(workload).items():
            autoscaler = manifests.find("HorizontalPodAutoscaler", workload["metadata"]["name"])
            replicas: int = (
                autoscaler["spec"]["minReplicas"] if autoscaler else workload["spec"].get("replicas", 1)
            )
            return replicas
    return None


def grace_covers_drain(manifests: Manifests) -> Iterator[str]:
    for name, workload, process in manifests.own_workloads():
        container = server(workload)
        if container is None or workload["kind"] != "Deployment":
            continue
        before = _pre_stop_seconds(container)
        if before is None:
            yield f"{name}: no preStop, so requests still arrive while it drains"
            continue
        needed = before
        if process.drains_itself:
            try:
                settings: Any = settings_of(process, environment(manifests, container)[0])
            except SettingsError:
                continue
            needed += settings.drain_seconds + settings.shutdown_grace_seconds
        granted = pod(workload).get("terminationGracePeriodSeconds", 30)
        if granted < needed:
            yield f"{name}: killed after {granted} s, but may need {needed:g} s to drain"


def drains_last_as_long_as_requests(manifests: Manifests) -> Iterator[str]:
    """A request that the gateway lets run on is not cut by a rollout, in the gateway or behind it."""
    values: dict[str, Any] = {}
    for name, workload, process in manifests.own_workloads():
        if container := server(workload):
            try:
                values[name] = settings_of(process, environment(manifests, container)[0])
            except SettingsError:
                return
    if "gateway" not in values:
        return
    gateway = values["gateway"]
    answer, document = gateway.answer_timeout_seconds, gateway.document_timeout_seconds
    longest = {
        "gateway": max(answer, document),
        "coordinator": answer,
        "generator": answer,
        "ingestor": document,
        "bridge": answer,
    }
    for name, needed in longest.items():
        if name not in values:
            continue
        deployment = manifests.find("Deployment", name)
        command = _drain_command(server(deployment) or {}) if deployment else []
        granted = float(command[3]) if command else getattr(values[name], "shutdown_grace_seconds", 0.0)
        if granted < needed:
            yield f"{name}: waits {granted:g} s for requests that may take {needed:g} s"


def _drain_command(container: Node) -> list[str]:
    """drain-gateway ADMIN WAIT LIMIT, or nothing."""
    command: list[str] = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
    return command if command[:1] == ["drain-gateway"] else []


def _pre_stop_seconds(container: Node) -> float | None:
    """Time that the preStop hook takes at most."""
    hook = container.get("lifecycle", {}).get("preStop", {})
    if "sleep" in hook:
        return float(hook["sleep"]["seconds"])
    command = _drain_command(container)
    return float(command[2]) + float(command[3]) if command else None


def pods_are_restricted(manifests: Manifests) -> Iterator[str]:
    for workload in manifests.workloads():
        name, spec = workload["metadata"]["name"], pod(workload)
        security = spec.get("securityContext", {})
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name}: carries a token of the Kubernetes API"
        if spec.get("enableServiceLinks") is not False:
            yield f"{name}: gets a variable for every Service"
        if security.get("runAsNonRoot") is not True or not security.get("runAsUser"):
            yield f"{name}: may run as root"
        if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name}: no seccomp profile"
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            title = f"{name}/{container['name']}"
            limits = container.get("securityContext", {})
            if limits.get("allowPrivilegeEscalation") is not False:
                yield f"{title}: may gain privileges"
            if limits.get("capabilities", {}).get("drop") != ["ALL"]:
                yield f"{title}: keeps capabilities"
            if limits.get("readOnlyRootFilesystem") is not True:
                yield f"{title}: may write to its image"
            for kind in ("requests", "limits"):
                if container.get("resources", {}).get(kind, {}).keys() < {"cpu", "memory"}:
                    yield f"{title}: {kind} of CPU and memory are missing"
    for account in manifests.of("ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield f"ServiceAccount {account['metadata']['name']}: hands out its token"
    for name, workload, _ in manifests.own_workloads():
        if workload["kind"] != "Deployment":
            continue
        if workload["spec"].get("strategy", {}).get("rollingUpdate", {}).get("maxUnavailable") != 0:
            yield f"{name}: a rollout may take replicas away before their successors are ready"
        if not pod(workload).get("topologySpreadConstraints"):
            yield f"{name}: its replicas may all be on one node"
    for workload in manifests.of("StatefulSet"):
        spread = {one["topologyKey"] for one in pod(workload).get("topologySpreadConstraints", [])}
        yield from _shared(workload["metadata"]["name"], spread)


def is_fit_for_production(manifests: Manifests) -> Iterator[str]:
    if not manifests.name.startswith("production"):
        return
    for workload in manifests.workloads():
        name = workload["metadata"]["name"]
        for container in (*pod(workload)["containers"], *pod(workload).get("initContainers", [])):
            yield from _unpinned(f"{name}/{container['name']}", container["image"])
        if workload["kind"] in ("Deployment", "StatefulSet"):
            smallest = _smallest(manifests, workload["spec"]["selector"]["matchLabels"])
            if smallest is None or smallest < 2:
                yield f"{name}: a single replica"
            budgets = (one["spec"]["selector"]["matchLabels"] for one in manifests.of("PodDisruptionBudget"))
            if not any(selector.items() <= pod_labels(workload).items() for selector in budgets):
                yield f"{name}: no PodDisruptionBudget"
    for catalog in manifests.of("ImageCatalog"):
        for image in catalog["spec"]["images"]:
            yield from _unpinned(catalog["metadata"]["name"], image["image"])
    for cluster in manifests.of("Cluster"):
        name = cluster["metadata"]["name"]
        if cluster["spec"]["instances"] < 2:
            yield f"{name}: a single replica"
        spread = {one["topologyKey"] for one in cluster["spec"].get("topologySpreadConstraints", [])}
        spread.add(cluster["spec"].get("affinity", {}).get("topologyKey", ""))
        yield from _shared(name, spread)
    for secret in manifests.of("Secret"):
        yield f"Secret {secret['metadata']['name']}: a secret in the repository"
    for name, workload, process in manifests.own_workloads():
        values = {entry["name"]: entry for entry in (server(workload) or {}).get("env", [])}
        for field, info in process.settings.model_fields.items():
            if "SecretStr" not in repr(info.annotation) and field != "api_keys":
                continue
            for variable in process.settings.variable_names(field):
                plain = values.get(variable, {}).get("value")
                if plain is not None and variable.endswith("_URL") and "@" not in plain:
                    continue  # hosts alone
                if plain is not None or any(variable in one["data"] for one in manifests.of("ConfigMap")):
                    yield f"{name}: {variable} is a secret, not for a ConfigMap or a plain value"


def _shared(name: str, spread: set[str]) -> Iterator[str]:
    """What instances that hold data may all be lost with, where they are spread over so much."""
    for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone"):
        if key not in spread:
            yield f"{name}: its instances may all share one {key}"


def _unpinned(name: str, image: str) -> Iterator[str]:
    """The suite's own images have their release as tag, whoever pushes them; others' are known by digest."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    if not tag or tag.endswith("latest"):
        yield f"{name}: image {image} is not pinned to a release"
    elif not image.startswith(("groundline/", *NOT_BY_DIGEST)) and not _DIGEST.search(image):
        yield f"{name}: image {image} is not pinned by digest"


BUILD_FILES = tuple(
    ROOT / path for path in ("services/Dockerfile", "gateway/Dockerfile", "deploy/images/postgres/Dockerfile")
)

NOT_BY_DIGEST = ("tensorchord/vchord_bm25-scratch", "cr.weaviate.io/semitechnologies/weaviate:")
"""Files of an extension, for the variant vchord_bm25 of the database's image alone, which no build runs; and
a server whose registry was out of reach when it was added."""


def base_image_problems(build_file: Path) -> Iterator[str]:
    """A build begins with what a digest names, and with nothing else."""
    text = build_file.read_text(encoding="utf-8")
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE))
    for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        named = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], image)
        if named not in stages and not named.startswith(NOT_BY_DIGEST) and not _DIGEST.search(named):
            yield f"{build_file.parent.name}/{build_file.name}: {named} is not pinned by digest"


_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")

POSTGRES_BUILD = ROOT / "deploy/images/postgres/Dockerfile"
"""What makes the database's image, with the versions in it."""

EXTENSIONS = {"pg_textsearch": ("pg_textsearch",), "vchord_bm25": ("vchord_bm25",)}
"""Keyword engine → its extensions."""

PRELOADED = ("pg_textsearch",)
"""Extensions that do not work unless they are loaded when the server starts."""

_DATABASE_IMAGE = re.compile(r"groundline/postgres:(?P<postgres>[\d.]+)-(?P<engine>\w+)-(?P<version>[\d.]+)")


def built_versions(build_file: Path) -> dict[str, str]:
    """Name, such as pg_textsearch, → version in the image."""
    found = re.findall(r"^ARG (\w+)_VERSION=(\S+)$", build_file.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.lower(): version for name, version in found}


def database_image_problems(
    image: str, preloaded: Sequence[str], created: Sequence[str] | None, build_file: Path = POSTGRES_BUILD
) -> Iterator[str]:
    """What differs among the image that is run, what is built into it, and what the code accepts.

    `created` are the extensions that a superuser creates; None where the migrations' role is one.
    """
    named = _DATABASE_IMAGE.fullmatch(image)
    if named is None or named["engine"] not in EXTENSIONS:
        yield f"{image} is not built from {build_file.parent.name}/Dockerfile"
        return
    engine, built = named["engine"], built_versions(build_file)
    for name, version in (("postgres", named["postgres"]), (engine, named["version"])):
        if built.get(name) != version:
            yield f"{image} is built with {name} {built.get(name)}"
    try:
        BACKENDS[engine].of_version(built.get(engine, "none"))
    except KeyError:
        yield f"{image}: the services know no {engine}"
    except LexicalIndexError as error:
        yield f"{image}: the services refuse it: {error}"
    for extension in EXTENSIONS[engine]:
        if extension in PRELOADED and extension not in preloaded:
            yield f"{image}: {extension} is not preloaded"
    for extension in preloaded:
        if extension not in EXTENSIONS[engine]:
            yield f"{image}: preloads {extension}, which is not in it"
    wanted = {"vector", *EXTENSIONS[engine]}
    if created is not None and set(created) != wanted:
        yield f"{image}: creates {', '.join(created)}, not {', '.join(sorted(wanted))}"


def database_image_fits(manifests: Manifests) -> Iterator[str]:
    for cluster in manifests.of("Cluster"):
        spec = cluster["spec"]
        catalog = manifests.find("ImageCatalog", spec["imageCatalogRef"]["name"])
        images = {one["major"]: one["image"] for one in catalog["spec"]["images"]} if catalog else {}
        major = spec["imageCatalogRef"]["major"]
        image = images.get(major, "no image")
        statements = spec["bootstrap"]["initdb"]["postInitApplicationSQL"]
        created = [text.split()[2] for text in statements if text.startswith("CREATE EXTENSION ")]
        preloaded = spec["postgresql"]["shared_preload_libraries"]
        yield from database_image_problems(image, preloaded, created)
        if not image.partition(":")[2].startswith(f"{major}."):
            yield f"{image} is not PostgreSQL {major}"


RULES: tuple[Callable[[Manifests], Iterator[str]], ...] = (
    addresses_match,
    connections_fit,
    database_image_fits,
    deleting_keeps_the_data,
    drains_last_as_long_as_requests,
    environment_is_settings,
    grace_covers_drain,
    is_fit_for_production,
    network_edges_are_channels,
    pods_are_restricted,
    ports_match,
    probes_ask_health,
    probes_reach_the_process,
    reads_go_to_standbys,
    scaling_agrees,
    selectors_match,
    weaviate_is_reached,
    weaviate_nodes_are_one_cluster,
)


def all_problems(manifests: Manifests) -> list[str]:
    """What the rules say of a target."""
    return [problem for rule in RULES for problem in rule(manifests)]


def image_tag_problems(k8s: Path) -> Iterator[str]:
    """The release of each of our images is named in exactly one place below `k8s`."""
    places: dict[str, list[str]] = {}
    for path in sorted(k8s.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            for name in _tagged(document):
                places.setdefault(name, []).append(str(path.relative_to(k8s)))
    for name in (*SERVICES, "gateway"):
        named = places.get(f"groundline/{name}", [])
        if named != ["images/kustomization.yaml"]:
            yield f"the release of groundline/{name} is named in: {', '.join(named) or 'no place'}"


def _tagged(node: Any) -> Iterator[str]:
    """Names of the images that a document gives a tag."""
    if isinstance(node, list):
        for item in node:
            yield from _tagged(item)
    elif isinstance(node, dict):
        if "newTag" in node:
            yield str(node["name"])
        image = node.get("image")
        if isinstance(image, str) and ":" in image:
            yield image.partition(":")[0]
        for item in node.values():
            yield from _tagged(item)


def _composed(paths: Sequence[Path]) -> dict[str, Node]:
    """The services of compose files that are taken together: what a later one says of a service is added."""
    services: dict[str, Node] = {}
    for path in paths:
        for name, given in yaml.safe_load(path.read_text(encoding="utf-8"))["services"].items():
            service = services.setdefault(name, {})
            variables = {**service.get("environment", {}), **given.get("environment", {})}
            service.update(given, environment=variables)
    return services


def compose_problems(*paths: Path) -> Iterator[str]:
    """The same about settings in compose files taken together: only what exists, nothing required missing."""
    services = _composed(paths)
    for name, process in PROCESSES.items():
        if name == "ingestor-worker":
            continue
        if name not in services:
            yield f"compose: no service {name}"
            continue
        values = {
            key: _sample(str(value)) for key, value in (services[name].get("environment") or {}).items()
        }
        yield from (f"compose: {name}: {problem}" for problem in settings_problems(process, values))
        for host, port in sorted(_weaviate_addresses(process, values)):
            if (host, port) not in {(WEAVIATE, GRPC_PORT), (WEAVIATE, WEAVIATE_HTTP_PORT)}:
                yield f"compose: {name}: is sent to {host}:{port} for Weaviate"
            elif host not in services:
                yield f"compose: {name}: no service {host}"
        for field in process.settings.model_fields:
            match = _ADDRESS.fullmatch(field)
            given = next(
                (values[one] for one in process.settings.variable_names(field) if one in values), None
            )
            if match and given and given.removeprefix("dns:///") != f"{match[1]}:{GRPC_PORT}":
                yield f"compose: {name}: {field} is {given}, the service is {match[1]}:{GRPC_PORT}"
    database = services["database"]
    preloads = (part.partition("shared_preload_libraries=")[2] for part in database["command"])
    preloaded = [name for part in preloads if part for name in part.split(",")]
    yield from (f"compose: {one}" for one in database_image_problems(database["image"], preloaded, None))
    for name, service in services.items():
        if "build" not in service:
            yield from (f"compose: {problem}" for problem in _unpinned(name, service["image"]))
        if service.get("cap_drop") != ["ALL"]:
            yield f"compose: {name}: keeps capabilities"
        if "no-new-privileges:true" not in service.get("security_opt", ()):
            yield f"compose: {name}: may gain privileges"
        for limit in ("mem_limit", "cpus", "pids_limit"):
            if not service.get(limit):
                yield f"compose: {name}: no {limit}"


def _sample(value: str) -> str:
    """The value with the operator's variables replaced: by their default, else by something of their form."""

    def replace(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if default is not None:
            return default
        return SECRETS[("groundline-gateway", "api-keys")] if name.endswith("API_KEYS") else "example"

    return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", replace, value)
