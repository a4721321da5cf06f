"""Compares rendered manifests with what only the code knows: settings, ports, health names, whom it calls.

What every cluster can judge is judged there: by the pod security standard, by deploy/k8s/policies, and by
tests/cluster on a real control plane.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, get_args
from unittest.mock import patch
from urllib.parse import urlsplit

from groundline_coordinator.settings import CoordinatorMigrationSettings
from groundline_database import DatabaseSettings
from groundline_gateway.keys import KeyDatabaseSettings
from groundline_gateway.settings import GatewaySettings
from groundline_runtime.serving.health import LIVENESS
from groundline_runtime.settings import Settings, SettingsError, load_settings
from project import SERVICES
from pydantic import AnyHttpUrl, BaseModel

type Node = dict[str, Any]
type Edge = tuple[str, int | str]
"""The other end's name, and a port: 53, or 53/UDP."""


GRPC_PORT: Final = 50051
INTERNET: Final = "the internet"
DNS: Final[set[Edge]] = {("dns", 53), ("dns", "53/UDP")}
DATABASE: Final = ("database", 5432)
TELEMETRY: Final = ("otel-collector", 4317)
PROMETHEUS: Final = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
}
"""Peer that reads the metrics of processes."""

OUTSIDE: Final[Mapping[str, str]] = {
    "api_base_url": "hosted-reranking",
    "embedding.base_url": "hosted-embeddings",
    "judge_base_url": "hosted-models",
    "jwt_issuers.jwks_url": "oidc-keys",
    "other_embedding.base_url": "hosted-embeddings",
    "provider_base_url": "hosted-models",
}
"""Settings with an address outside, and the component whose policies let their processes go there."""

INSIDE: Final = re.compile(
    r"(?:read_)?database_url|otlp_endpoint|weaviate\..+|admin_address|public_url|console_trace_url"
)
"""Settings with an address of the suite itself, beside those of its services, or one that browsers open."""

WORKERS: Final = "ingestor-worker"
"""The workload of the ingestor that does its work; its settings are the ingestor's."""

OTHER_CONNECTIONS: Final = 22
"""Connections of superusers (3), the standbys, the operator and the migrations."""

FOREIGN_VARIABLES: Final = {"GRPC_VERBOSITY"}
ANY_ADDRESS: Final = ("0.0.0.0", "::", "[::]")  # noqa: S104
PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
KEYS: Final = json.dumps([{"key": "an-example-of-a-key", "client": "a", "principals": ["user:a"]}])
SECRETS: Final = {
    ("groundline-database-app", "uri"): "postgresql://groundline:example@database/groundline",
    ("groundline-gateway", "database-url"): "postgresql://gateway:password@database/groundline",
    ("groundline-gateway", "api-keys"): KEYS,
    ("groundline-weaviate", "api-key"): "an-example-of-a-key",
    ("groundline-weaviate-backup", "access-key-id"): "example",
    ("groundline-weaviate-backup", "secret-access-key"): "example",
}
"""Keys of the Secrets that an operator makes (deploy/README.md), with a value of the right form."""

_ADDRESS: Final = re.compile(rf"({'|'.join(SERVICES)})_(?:target|address)")
_PLACE: Final = re.compile(r"(?:.*[._])?(?:address|endpoint|target|ur[il])")
_PRIVATE: Final = "10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16"
# A block that left a private range in it would reach the cluster itself.
_PUBLIC: Final = (
    {"cidr": "0.0.0.0/0", "except": _PRIVATE.split()},
    {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]},
)


@dataclass(frozen=True, slots=True)
class Process:
    """A program of ours: its settings, and what its probes ask."""

    settings: type[Settings]
    readiness: str
    liveness: str
    speaks_grpc: bool


def _process(name: str) -> Process:
    settings = getattr(import_module(f"groundline_{name}.settings"), f"{name.title()}Settings")
    try:
        descriptor = import_module(f"groundline.v1.{name}_service_pb2").DESCRIPTOR
    except ModuleNotFoundError:
        return Process(settings, "/readyz", "/livez", speaks_grpc=False)
    [service] = descriptor.services_by_name.values()
    return Process(settings, service.full_name, LIVENESS, speaks_grpc=True)


PROCESSES: Final[Mapping[str, Process]] = {
    **{name: _process(name) for name in SERVICES if name != "gateway"},
    WORKERS: _process("ingestor"),
    # Envoy answers for itself at "/"; /healthz is about all services.
    "gateway": Process(GatewaySettings, "/", "/", speaks_grpc=False),
    "migrations": Process(CoordinatorMigrationSettings, "", "", speaks_grpc=False),
}


class Setting(NamedTuple):
    """A setting of a program."""

    name: str
    """Name, dotted within groups."""
    variables: Sequence[str]
    types: Sequence[type]


@dataclass(frozen=True, slots=True)
class Part:
    """A workload that runs a program of ours, with the settings that it reads there."""

    name: str
    workload: Node
    pod: Node
    server: Node
    process: Process
    values: Mapping[str, str]
    settings: Any


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of one rendered target; a complete one points to nothing outside."""

    name: str
    documents: tuple[Node, ...]
    complete: bool = False

    def of(self, *kinds: str) -> Iterator[Node]:
        return (document for document in self.documents if document["kind"] in kinds)

    def find(self, kind: str, name: str) -> Node:
        """Return the object, or an empty one."""
        return next((one for one in self.of(kind) if one["metadata"]["name"] == name), {})


def pod(workload: Node) -> Node:
    spec = workload["spec"]["jobTemplate"]["spec"] if workload["kind"] == "CronJob" else workload["spec"]
    template: Node = spec["template"]["spec"]
    return template


def environment(manifests: Manifests, container: Node) -> tuple[dict[str, str], list[str]]:
    """Return what the container finds in its environment, and the references that lead nowhere."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for source in container.get("envFrom", []):
        config = manifests.find("ConfigMap", source.get("configMapRef", {}).get("name", ""))
        found |= config.get("data", {})
        problems += [] if config else [f"envFrom names what is not there: {source}"]
    for entry in container.get("env", []):
        reference = entry.get("valueFrom", {}).get("secretKeyRef")
        key = (reference["name"], reference["key"]) if reference else None
        if key is None or key in SECRETS:
            found[entry["name"]] = SECRETS[key] if key else entry.get("value", "")
        else:
            problems.append(f"{entry['name']} is from a Secret that nobody makes: {'/'.join(key)}")
    return found, problems


def settings_of(group: type[BaseModel], within: str = "", names: Sequence[str] = ()) -> Iterator[Setting]:
    """Yield every setting, those of groups included."""
    for name, field in group.model_fields.items():
        variables: Sequence[str] = [f"{one}__{name.upper()}" for one in names]
        if issubclass(group, Settings):
            variables = group.variable_names(name)
        # A group may be optional, or one of a list.
        types = [one for one in (field.annotation, *get_args(field.annotation)) if isinstance(one, type)]
        yield Setting(f"{within}{name}", variables, types)
        for one in types:
            if issubclass(one, BaseModel):
                yield from settings_of(one, f"{within}{name}.", variables)


@cache
def _load(kind: type[Settings], values: frozenset[tuple[str, str]]) -> Settings | str:
    """Return the settings, or what is wrong with them."""
    with patch.dict(os.environ, dict(values), clear=True):
        try:
            return load_settings(kind)
        except SettingsError as error:
            return str(error)


def read(process: Process, values: Mapping[str, str]) -> tuple[Settings | None, list[str]]:
    """Return the settings that the process reads in that environment, and what is wrong with it."""
    known = {variable for one in settings_of(process.settings) for variable in one.variables}
    unknown = sorted(values.keys() - known - FOREIGN_VARIABLES)
    problems = [f"{name} is not a setting of {process.settings.service_name()}" for name in unknown]
    loaded = _load(process.settings, frozenset(values.items()))
    return (None, [*problems, loaded]) if isinstance(loaded, str) else (loaded, problems)


def addresses(process: Process, values: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield field, service and given address of the services that the process calls."""
    for field in process.settings.model_fields:
        given = next((values[one] for one in process.settings.variable_names(field) if one in values), "")
        if (match := _ADDRESS.fullmatch(field)) and given:
            yield field, match[1], given


def edges(process: Process) -> set[Edge]:
    """Return whom the process opens channels or connections to, as its settings tell."""
    fields = process.settings.model_fields
    called = {(match[1], GRPC_PORT) for field in fields if (match := _ADDRESS.fullmatch(field))}
    return called | {
        edge for field, edge in (("database_url", DATABASE), ("otlp_endpoint", TELEMETRY)) if field in fields
    }


def weaviate(settings: Any) -> set[Edge]:
    """Return the addresses of Weaviate that the settings name."""
    given = getattr(settings, "weaviate", None)
    if given is None:
        return set()
    host, _, port = given.grpc_target.removeprefix("dns:///").rpartition(":")
    return {(host, int(port)), (given.http_url.host, given.http_url.port)}


# Rules. Each yields what is wrong with a target, of whose parts the settings are sound.


def answers_where_it_is_asked(manifests: Manifests, parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if part.workload["kind"] != "Deployment":
            continue
        process, listed = part.process, part.server.get("ports", [])
        ports = {one["name"]: one["containerPort"] for one in listed}
        if part.settings.host not in ANY_ADDRESS or part.settings.port not in ports.values():
            yield f"{part.name}: listens on {part.settings.host}:{part.settings.port}, declares {ports}"
        if part.settings.metrics_port != ports.get("metrics"):
            yield f"{part.name}: has metrics at {part.settings.metrics_port}, declares {ports}"
        kind, name = ("grpc", "service") if process.speaks_grpc else ("httpGet", "path")
        for probe in PROBES:
            asked = part.server.get(probe, {}).get(kind, {})
            port = ports.get(asked.get("port"), asked.get("port"))
            wanted = process.readiness if probe == "readinessProbe" else process.liveness
            if asked.get(name) != wanted or port != part.settings.port:
                yield f"{part.name}: {probe} has to ask {wanted} at {part.settings.port}, it asks {asked}"


def addresses_are_services(manifests: Manifests, parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        proxied = any(one["name"] == "mtls" for one in part.pod.get("initContainers", []))
        for field, service, given in addresses(part.process, part.values):
            # Clients resolve every replica; Envoy does so by itself.
            wanted = f"{'dns:///' if field.endswith('_target') else ''}{service}:{GRPC_PORT}"
            if proxied and not given.startswith("127.0.0.1:"):
                yield f"{part.name}: {field} {given} passes by the proxy"
            if not proxied and given != wanted:
                yield f"{part.name}: {field} is {given}, not {wanted}"
            if manifests.complete and not manifests.find("Service", service):
                yield f"{part.name}: {field} names the Service {service}, which is not there"
        for host, port in sorted(weaviate(part.settings)):
            spec = manifests.find("Service", host).get("spec", {"ports": []})
            if port not in (one["port"] for one in spec["ports"]) or spec.get("publishNotReadyAddresses"):
                yield f"{part.name}: no Service leads to ready nodes at {host}:{port}"


def _allowed(manifests: Manifests, policy: Node, direction: str, side: str) -> set[Edge]:
    """Return the other ends that all policies of these pods allow; `anyone` for a rule without peers."""
    selected = policy["spec"]["podSelector"]
    return {
        (_peer(peer), _port(port["port"], port))
        for one in manifests.of("NetworkPolicy")
        if _selects(one["spec"]["podSelector"], selected["matchLabels"])
        for rule in one["spec"].get(direction, [])
        for peer in rule.get(side, [{}])
        for port in rule.get("ports", [{"port": 0}])
    }


def _selects(selector: Node, labels: Mapping[str, str]) -> bool:
    """Tell whether a policy's selector takes the suite's pods with these labels."""
    labels = {"app.kubernetes.io/part-of": "groundline", **labels}
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        one["operator"] == "In" and labels.get(one["key"]) in one["values"]
        for one in selector.get("matchExpressions", [])
    )


def _port(number: int, port: Node) -> int | str:
    return number if port.get("protocol", "TCP") == "TCP" else f"{number}/{port['protocol']}"


def _peer(peer: Node) -> str:
    labels = peer.get("podSelector", {}).get("matchLabels", {})
    if "ipBlock" in peer:
        return INTERNET if peer["ipBlock"] in _PUBLIC else str(peer["ipBlock"])
    if peer == PROMETHEUS:
        return "prometheus"
    if "namespaceSelector" in peer:
        return "dns" if labels.get("k8s-app") == "kube-dns" else str(peer["namespaceSelector"])
    return DATABASE[0] if "cnpg.io/cluster" in labels else labels.get("app.kubernetes.io/name", "anyone")


def network_edges_are_channels(manifests: Manifests, parts: Sequence[Part]) -> Iterator[str]:
    outgoing = {name: edges(process) | DNS for name, process in PROCESSES.items()}
    for part in parts:
        outgoing[part.name] |= {("weaviate", port) for _, port in weaviate(part.settings)}
    for job in manifests.of("CronJob"):
        values = (
            value for one in pod(job)["containers"] for value in environment(manifests, one)[0].values()
        )
        called = {(url.hostname, url.port) for url in map(urlsplit, values) if url.hostname and url.port}
        outgoing[job["metadata"]["name"]] = called | DNS
    node = manifests.find("StatefulSet", "weaviate")
    server = pod(node)["containers"][0] if node else {}
    declared = {_port(one["containerPort"], one) for one in server.get("ports", [])}
    to_nodes = {port for ends in outgoing.values() for name, port in ends if name == "weaviate"}
    outgoing["weaviate"] = {("weaviate", port) for port in declared - to_nodes} | DNS
    if environment(manifests, server)[0].get("ENABLE_MODULES") == "backup-s3":
        outgoing["weaviate"].add((INTERNET, 443))
    metrics = {
        (part.name, part.settings.metrics_port) for part in parts if part.workload["kind"] == "Deployment"
    }
    present = {
        one["metadata"]["name"] for one in (*(part.workload for part in parts), *manifests.of("CronJob"))
    }
    callees = {DATABASE[0], TELEMETRY[0]} | ({"weaviate"} if node else set())
    for name in sorted(present | callees):
        policy = manifests.find("NetworkPolicy", name)
        if not policy:
            yield from [f"{name}: no NetworkPolicy"] if name in present or name == "weaviate" else []
            continue
        incoming = {
            (caller, port) for caller, ends in outgoing.items() for callee, port in ends if callee == name
        }
        incoming |= {("anyone", 8080)} if name == "gateway" else set()
        incoming |= {("prometheus", port) for one, port in metrics if one == name and port is not None}
        allowed = _allowed(manifests, policy, "ingress", "from")
        if name in (DATABASE[0], TELEMETRY[0]):
            allowed = {edge for edge in allowed if edge[0] in outgoing}
        yield from _differences(name, "ingress from", allowed, incoming)
        if name in outgoing:
            allowed = _allowed(manifests, policy, "egress", "to")
            optional = allowed & _optional(name)
            yield from _differences(name, "egress to", allowed, outgoing[name] | optional)
    denied = [one["spec"] for one in manifests.of("NetworkPolicy") if one["spec"]["podSelector"] == {}]
    if manifests.complete and denied != [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]:
        yield "no NetworkPolicy denies what is not allowed"


def outside(process: Process) -> set[str]:
    """Return the settings by which the process opens connections to the outside."""
    return {
        one.name
        for one in settings_of(process.settings)
        if (_PLACE.fullmatch(one.name) or AnyHttpUrl in one.types)
        and not INSIDE.fullmatch(one.name)
        and not _ADDRESS.fullmatch(one.name)
    }


def optional_edges_have_components(components: Mapping[str, Manifests]) -> Iterator[str]:
    """Check that whatever a setting may connect to outside is opened by a component, by the rendered ones."""
    for name, process in PROCESSES.items():
        for setting in sorted(outside(process)):
            manifests = components.get(OUTSIDE.get(setting, ""), Manifests("none", ()))
            policy = manifests.find("NetworkPolicy", name)
            if not policy or (INTERNET, 443) not in _allowed(manifests, policy, "egress", "to"):
                yield f"{name}: no component opens what {setting} connects to; OUTSIDE has to name it"


def _optional(name: str) -> set[Edge]:
    """Return where an operator may let the part go: to hosted models, to sites that it crawls."""
    hosted = name in PROCESSES and outside(PROCESSES[name])
    sites = {(INTERNET, port) for port in (80, 443, 993)} if name == "collector" else set()
    return ({(INTERNET, 443)} if hosted else set()) | sites


def _differences(name: str, what: str, allowed: set[Edge], expected: set[Edge]) -> Iterator[str]:
    for peer, port in sorted(expected - allowed, key=str):
        yield f"NetworkPolicy {name}: lacks {what} {peer}:{port}, which the code opens"
    for peer, port in sorted(allowed - expected, key=str):
        yield f"NetworkPolicy {name}: allows {what} {peer}:{port}, which no code opens"


def connections(settings: Any) -> int:
    """Return how many connections to the database a process with these settings may have open."""
    if isinstance(settings, GatewaySettings):
        # It follows the keys in a pool, stores its audit log by another, and administers by a third; none is
        # asked for its state.
        size: int = KeyDatabaseSettings.model_fields["pool_max_size"].default
        return 3 * size if settings.database_url is not None else 0
    # A process with workers also listens for what is handed in.
    listens = bool(getattr(settings, "workers", 0))
    return settings.pool_max_size + 1 + listens if isinstance(settings, DatabaseSettings) else 0


def the_database_serves_all(manifests: Manifests, parts: Sequence[Part]) -> Iterator[str]:
    """Check that all replicas' connections fit, with one more in a rollout, and that reads go to existing
    standbys."""
    shares = {"others": OTHER_CONNECTIONS}
    for part in parts:
        if part.workload["kind"] == "Deployment" and (opened := connections(part.settings)):
            scaler = manifests.find("HorizontalPodAutoscaler", part.name).get("spec", {"maxReplicas": 1})
            shares[part.name] = (scaler["maxReplicas"] + 1) * opened
    for database in manifests.of("Cluster") if manifests.complete else ():
        allowed = int(database["spec"]["postgresql"]["parameters"]["max_connections"])
        if sum(shares.values()) > allowed:
            terms = " + ".join(f"{name} {share}" for name, share in shares.items())
            yield f"max_connections is {allowed}, all replicas may open {sum(shares.values())}: {terms}"
        for part in parts:
            url = getattr(part.settings, "read_database_url", None)
            host = urlsplit(url.get_secret_value()).hostname if url else None
            if host not in (None, f"{database['metadata']['name']}-ro") or (
                host and database["spec"]["instances"] < 2
            ):
                yield f"{part.name}: reads from {host}, where no standby is"
    nodes = manifests.find("StatefulSet", "weaviate").get("spec", {}).get("replicas")
    for part in parts:
        given = getattr(part.settings, "weaviate", None)
        if given and nodes and given.replication_factor != nodes:
            yield f"{part.name}: {given.replication_factor} replicas of each object on {nodes} nodes"


def drains_last_long_enough(manifests: Manifests, parts: Sequence[Part]) -> Iterator[str]:
    """Check that a request that the gateway lets run on is cut neither by the process nor by the kubelet."""
    gateway = next((part.settings for part in parts if part.name == "gateway"), None)
    longest = {}
    if gateway:
        answer, document = gateway.answer_timeout_seconds, gateway.document_timeout_seconds
        longest = {"gateway": max(answer, document), "ingestor": document}
        longest |= dict.fromkeys(("coordinator", "generator", "bridge"), answer)
    for part in parts:
        if part.workload["kind"] != "Deployment":
            continue
        hook = part.server.get("lifecycle", {}).get("preStop", {})
        # drain-gateway ADMIN WAIT LIMIT
        _, _, before, limit = hook.get("exec", {}).get(
            "command", ["", "", hook.get("sleep", {}).get("seconds", 0), 0]
        )
        grace = getattr(part.settings, "shutdown_grace_seconds", float(limit))
        needed = float(before) + grace + getattr(part.settings, "drain_seconds", 0.0)
        if grace < longest.get(part.name, 0):
            yield f"{part.name}: waits {grace:g} s for requests that may take {longest[part.name]:g} s"
        if (granted := part.pod.get("terminationGracePeriodSeconds", 30)) < needed:
            yield f"{part.name}: killed after {granted} s, but may need {needed:g} s to drain"


RULES: Final = (
    addresses_are_services,
    answers_where_it_is_asked,
    drains_last_long_enough,
    network_edges_are_channels,
    the_database_serves_all,
)


def all_problems(manifests: Manifests) -> list[str]:
    """Return what the rules say of a target."""
    parts: list[Part] = []
    secrets = (one["metadata"]["name"] for one in manifests.of("Secret"))
    problems = [f"Secret {name}: a secret in the repository" for name in secrets]
    for workload in manifests.of("Deployment", "StatefulSet", "Job", "CronJob"):
        name, containers = workload["metadata"]["name"], pod(workload)["containers"]
        for container in containers:
            values, wrong = environment(manifests, container)
            settings = None
            if process := PROCESSES.get(name) if container["name"] == "server" else None:
                settings, unsound = read(process, values)
                wrong += unsound
            problems += [f"{name}: {problem}" for problem in wrong]
            if process and settings:
                parts.append(Part(name, workload, pod(workload), container, process, values, settings))
    return problems + [problem for rule in RULES for problem in rule(manifests, parts)]
