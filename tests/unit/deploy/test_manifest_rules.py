"""Every rule about the manifests, broken in a copy of them, is reported."""

import copy
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import manifests as tool
import pytest
from groundline_runtime.settings import Settings
from groundline_tests.weaviate.nodes import VERSION, engine_environment
from manifest_rules import (
    OUTSIDE,
    PROCESSES,
    Manifests,
    Node,
    Process,
    all_problems,
    edges,
    environment,
    optional_edges_have_components,
    outside,
    pod,
)
from project import ROOT, SERVICES
from pydantic import AnyHttpUrl, BaseModel
from pydantic_settings import SettingsConfigDict

type Break = Callable[[Manifests], object]


@pytest.fixture(scope="module", autouse=True)
def _renderer() -> None:
    """kustomize, installed into .venv where the machine has none, as `make lint` does."""
    if tool.renderer() is None:
        assert tool.install_renderer() is None


render = cache(tool.render)


@cache
def rendered(overlay: str, *components: str) -> Manifests:
    """Return the whole suite, as it is applied."""
    applied = tool.whole(tool.DEPLOY / "k8s", overlay, *components)
    documents = (document for directories in applied for document in render(directories))
    return Manifests(" with ".join((overlay, *components)), tuple(documents), complete=True)


def container(manifests: Manifests, name: str = "retriever", kind: str = "Deployment") -> Node:
    node: Node = pod(manifests.find(kind, name))["containers"][0]
    return node


def config(manifests: Manifests, name: str = "retriever") -> dict[str, str]:
    [source] = container(manifests, name)["envFrom"]
    data: dict[str, str] = manifests.find("ConfigMap", source["configMapRef"]["name"])["data"]
    return data


def variable(node: Node, name: str) -> Node:
    [entry] = [one for one in node["env"] if one["name"] == name]
    found: Node = entry
    return found


def spec(manifests: Manifests, kind: str, name: str = "retriever") -> Any:
    return manifests.find(kind, name)["spec"]


def policy(manifests: Manifests, name: str = "retriever") -> Node:
    found: Node = spec(manifests, "NetworkPolicy", name)
    return found


def egress(manifests: Manifests, name: str = "retriever") -> list[Node]:
    found: list[Node] = policy(manifests, name)["egress"]
    return found


def ingress(manifests: Manifests, name: str = "retriever") -> list[Node]:
    found: list[Node] = policy(manifests, name)["ingress"]
    return found


def source(manifests: Manifests) -> Node:
    found: Node = container(manifests)["envFrom"][0]["configMapRef"]
    return found


def probe(manifests: Manifests, name: str) -> Node:
    found: Node = container(manifests)[name]["grpc"]
    return found


def without(kind: str, name: str) -> Break:
    return lambda m: object.__setattr__(
        m, "documents", tuple(one for one in m.documents if one is not m.find(kind, name))
    )


def added(document: Node) -> Break:
    return lambda m: object.__setattr__(m, "documents", (*m.documents, document))


def web(port: int) -> Node:
    ends = [{"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}}]
    return {"to": ends, "ports": [{"port": port}]}


FROM_RERANKER = {
    "from": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "reranker"}}}],
    "ports": [{"port": 50051}],
}
OPEN = {
    "kind": "NetworkPolicy",
    "metadata": {"name": "retriever-open"},
    "spec": {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "retriever"}},
        "policyTypes": ["Ingress"],
        "ingress": [{}],
    },
}
PRODUCTION: dict[str, Break] = {
    # ports, health
    "retriever: listens on 0.0.0.0:50099": lambda m: config(m).update(GROUNDLINE_PORT="50099"),
    "retriever: listens on 127.0.0.1": lambda m: config(m).update(GROUNDLINE_HOST="127.0.0.1"),
    "retriever: readinessProbe has to ask": lambda m: probe(m, "readinessProbe").update(port=50052),
    "retriever: livenessProbe has to ask liveness": lambda m: probe(m, "livenessProbe").update(
        service="groundline.v1.RetrieverService"
    ),
    "retriever: startupProbe has to ask": lambda m: container(m).pop("startupProbe"),
    "gateway: readinessProbe has to ask /": lambda m: container(m, "gateway")["readinessProbe"][
        "httpGet"
    ].update(path="/healthz"),
    "retriever: has metrics at 9465, declares": lambda m: variable(
        container(m), "GROUNDLINE_METRICS_PORT"
    ).update(value="9465"),
    "gateway: has metrics at 9464, declares": lambda m: container(m, "gateway")["ports"].pop(),
    # addresses
    "retriever_target is dns:///retriever:9": lambda m: config(m, "coordinator").update(
        GROUNDLINE_COORDINATOR_RETRIEVER_TARGET="dns:///retriever:9"
    ),
    "retriever_target is retriever:50051, not dns:///retriever:50051": lambda m: config(
        m, "coordinator"
    ).update(GROUNDLINE_COORDINATOR_RETRIEVER_TARGET="retriever:50051"),
    "names the Service generator": without("Service", "generator"),
    # settings
    "GROUNDLINE_RETRIEVER_COLOUR is not a setting of groundline-retriever": lambda m: config(m).update(
        GROUNDLINE_RETRIEVER_COLOUR="red"
    ),
    "GROUNDLINE_POOL_MAX_SIZE is not a setting": lambda m: config(m, "reranker").update(
        GROUNDLINE_POOL_MAX_SIZE="4"
    ),
    "GROUNDLINE_RETRIEVER_DRAIN_SECONDS": lambda m: config(m).update(GROUNDLINE_DRAIN_SECONDS="soon"),
    "GROUNDLINE_RETRIEVER_DATABASE_URL": lambda m: container(m).update(env=[]),
    "from a Secret that nobody makes: groundline-database-app/password": lambda m: variable(
        container(m), "GROUNDLINE_DATABASE_URL"
    )["valueFrom"]["secretKeyRef"].update(key="password"),
    "envFrom names what is not there": lambda m: source(m).update(name="search"),
    "Secret groundline-gateway: a secret in the repository": added(
        {"kind": "Secret", "metadata": {"name": "groundline-gateway"}, "stringData": {}}
    ),
    # the database
    "reads from groundline-database-rw": lambda m: variable(
        container(m), "GROUNDLINE_RETRIEVER_READ_DATABASE_URL"
    ).update(value="postgresql://groundline-database-rw:5432"),
    "reads from groundline-database-ro, where no standby is": lambda m: spec(
        m, "Cluster", "groundline-database"
    ).update(instances=1),
    "max_connections is 420, all replicas may open 559: others 22 + ": lambda m: spec(
        m, "HorizontalPodAutoscaler"
    ).update(maxReplicas=20),
    # network
    "retriever: no NetworkPolicy": without("NetworkPolicy", "retriever"),
    "bridge: lacks egress to ": lambda m: egress(m, "bridge").pop(0),
    "retriever: allows ingress from reranker:50051": lambda m: ingress(m).append(FROM_RERANKER),
    "retriever: allows ingress from anyone": added(OPEN),
    "generator: allows egress to {'cidr'": lambda m: egress(m, "generator").append(
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 443}]}
    ),
    "coordinator: allows egress to the internet:443": lambda m: egress(m, "coordinator").append(web(443)),
    "ingestor: allows egress to the internet:80": lambda m: egress(m, "ingestor").append(web(80)),
    "retriever: lacks egress to dns:53/UDP": lambda m: egress(m)[-1]["ports"].pop(0),
    "reranker: lacks egress to otel-collector:4317": lambda m: egress(m, "reranker").pop(1),
    "NetworkPolicy database: lacks ingress from ": lambda m: ingress(m, "database")[0]["from"].pop(0),
    "bridge: lacks ingress from prometheus:9464": without("NetworkPolicy", "metrics"),
    "coordinator: allows ingress from anyone:9464": lambda m: ingress(m, "metrics")[0].pop("from"),
    "no NetworkPolicy denies": lambda m: policy(m, "deny-all").update(egress=[{}]),
    # drains
    "gateway: waits 130 s for requests that may take 600 s": lambda m: container(m, "gateway")["lifecycle"][
        "preStop"
    ]["exec"].update(command=["drain-gateway", "127.0.0.1:9901", "5", "130"]),
    "gateway: killed after 625 s": lambda m: container(m, "gateway")["lifecycle"]["preStop"]["exec"].update(
        command=["drain-gateway", "127.0.0.1:9901", "5", "700"]
    ),
    "coordinator: waits 20 s for requests that may take 120 s": lambda m: config(m, "coordinator").update(
        GROUNDLINE_SHUTDOWN_GRACE_SECONDS="20"
    ),
    "killed after 30 s": lambda m: pod(m.find("Deployment", "coordinator")).update(
        terminationGracePeriodSeconds=30
    ),
}
WEAVIATE: dict[str, Break] = {
    "retriever: no Service leads to ready nodes at weaviate-grpc:50052": lambda m: variable(
        container(m), "GROUNDLINE_WEAVIATE__GRPC_TARGET"
    ).update(value="dns:///weaviate-grpc:50052"),
    "leads to ready nodes at weaviate-grpc:50051": lambda m: spec(m, "Service", "weaviate-grpc").update(
        publishNotReadyAddresses=True
    ),
    "ingestor-worker: 5 replicas of each object on 3 nodes": lambda m: variable(
        container(m, "ingestor-worker"), "GROUNDLINE_WEAVIATE__REPLICATION_FACTOR"
    ).update(value="5"),
    "weaviate: AUTHENTICATION_APIKEY_ALLOWED_KEYS is from a Secret that nobody makes": lambda m: variable(
        container(m, "weaviate", "StatefulSet"), "AUTHENTICATION_APIKEY_ALLOWED_KEYS"
    )["valueFrom"]["secretKeyRef"].update(key="keys"),
    "ingestor-worker: lacks egress to weaviate:50051": without("NetworkPolicy", "ingestor-worker-weaviate"),
    "weaviate: lacks ingress from retriever:50051": lambda m: ingress(m, "weaviate")[0]["from"].pop(0),
    "weaviate: allows ingress from reranker:50051": lambda m: ingress(m, "weaviate").append(FROM_RERANKER),
    "weaviate: allows egress to the internet:80": lambda m: egress(m, "weaviate").append(web(80)),
    "weaviate: lacks egress to the internet:443": lambda m: policy(m, "weaviate-bucket").pop("egress"),
    "weaviate: lacks ingress from weaviate:7102/UDP": lambda m: ingress(m, "weaviate")[1]["ports"].pop(1),
    "weaviate: no NetworkPolicy": without("NetworkPolicy", "weaviate"),
    "weaviate: lacks ingress from weaviate-backup:8080": lambda m: policy(m, "weaviate-bucket").pop(
        "ingress"
    ),
    "weaviate-backup: allows egress to the internet:443": lambda m: policy(m, "weaviate-backup")[
        "egress"
    ].append(web(443)),
    "weaviate-backup: lacks egress to weaviate:80,": lambda m: variable(
        container(m, "weaviate-backup", "CronJob"), "BACKUPS"
    ).update(value="http://weaviate:80/v1/backups/s3"),
}
CASES = [
    *((("production",), expected, broken) for expected, broken in PRODUCTION.items()),
    *((("production", "weaviate-backup"), expected, broken) for expected, broken in WEAVIATE.items()),
]


@pytest.mark.parametrize(("target", "expected", "broken"), CASES, ids=[case[1] for case in CASES])
def test_what_is_broken_is_reported(target: tuple[str, ...], expected: str, broken: Break) -> None:
    manifests = copy.deepcopy(rendered(*target))
    broken(manifests)
    assert any(expected in problem for problem in all_problems(manifests)), all_problems(manifests)


@pytest.mark.parametrize(
    "components",
    [
        (),
        ("mtls",),
        ("prometheus-operator",),
        ("weaviate",),
        ("weaviate-backup",),
        tuple(dict.fromkeys(OUTSIDE.values())),
    ],
)
def test_nothing_is_reported_that_is_sound(components: tuple[str, ...]) -> None:
    assert all_problems(rendered("production", *components)) == []


def test_dev_is_sound() -> None:
    assert all_problems(rendered("dev")) == []


def test_a_call_that_passes_by_the_proxy_is_reported() -> None:
    manifests = copy.deepcopy(rendered("production", "mtls"))
    variable(container(manifests, "coordinator"), "GROUNDLINE_COORDINATOR_GENERATOR_TARGET").update(
        value="dns:///generator:50051"
    )
    assert any("passes by the proxy" in problem for problem in all_problems(manifests))


def test_the_kubelet_reaches_what_the_collector_and_the_proxy_are_probed_at() -> None:
    """It asks the pod's address: a port on loopback never answers it."""
    k8s = tool.DEPLOY / "k8s/components"
    assert "0.0.0.0:13133" in (k8s / "otel-collector/collector.yaml").read_text()
    manifests = rendered("production", "mtls")
    [proxy] = pod(manifests.find("Deployment", "retriever"))["initContainers"]
    asked = proxy["startupProbe"]["tcpSocket"]["port"]
    envoy = (k8s / "mtls/envoy.yaml").read_text()
    assert f"address: 0.0.0.0, port_value: {asked}" in envoy


def test_the_edges_are_read_from_the_settings() -> None:
    assert edges(PROCESSES["coordinator"]) >= {("retriever", 50051), ("generator", 50051)}
    assert ("database", 5432) not in edges(PROCESSES["reranker"])
    assert PROCESSES.keys() >= set(SERVICES)


def test_a_target_is_rendered_again_once_a_file_has_changed_or_it_was_not_used_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, kept = tmp_path / "deploy/base", tmp_path / "kept"
    base.mkdir(parents=True)
    (base / "kustomization.yaml").write_text("resources: [settings.yaml]\n")
    monkeypatch.setattr(tool, "DEPLOY", base.parent)
    monkeypatch.setattr(tool, "RENDERED", kept)

    def write(name: str) -> None:
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
        (base / "settings.yaml").write_text(text)

    def name() -> object:
        [document] = tool.render((base,))
        return document["metadata"]["name"]

    write("first")
    assert name() == "first"
    [path] = kept.iterdir()
    path.write_text(path.read_text().replace("first", "kept"))
    assert name() == "kept"
    write("second")
    assert name() == "second"
    write("first")
    os.utime(path, (0, 0))
    tool.forget_unused()
    assert name() == "first"


@cache
def components() -> dict[str, Manifests]:
    targets = tool.kustomizations(tool.DEPLOY / "k8s")
    return {
        name: Manifests(name, tuple(tool.render(*targets[f"components/{name}"])))
        for name in sorted(set(OUTSIDE.values()))
    }


def test_whatever_a_setting_may_connect_to_outside_is_opened_by_a_component() -> None:
    assert outside(PROCESSES["gateway"]) == {"jwt_issuers.jwks_url"}
    assert outside(PROCESSES["reranker"]) == {"api_base_url"}
    assert list(optional_edges_have_components(components())) == []


@pytest.mark.parametrize("component", sorted(set(OUTSIDE.values())))
def test_a_setting_without_its_component_is_reported(component: str) -> None:
    opened = {name: one for name, one in components().items() if name != component}
    settings = {setting for setting, name in OUTSIDE.items() if name == component}
    reported = re.compile(r"no component opens what (\S+) connects to")
    problems = "\n".join(optional_edges_have_components(opened))
    assert set(reported.findall(problems)) == settings


def test_a_new_address_of_a_group_or_a_list_has_to_be_named() -> None:
    class Hook(BaseModel):
        url: AnyHttpUrl | None = None

    class NewSettings(Settings):
        model_config = SettingsConfigDict(env_prefix="GROUNDLINE_NEW_")
        hooks: tuple[Hook, ...] = ()
        proxy: AnyHttpUrl | None = None
        judge_endpoint: str = ""

    assert outside(Process(NewSettings, "", "", speaks_grpc=True)) == {"hooks.url", "judge_endpoint", "proxy"}


def test_the_databases_metrics_can_be_read() -> None:
    allowed = policy(rendered("production"), "database")["ingress"]
    assert 9187 in {port["port"] for rule in allowed for port in rule["ports"]}


def test_prometheus_is_told_of_every_processs_metrics_and_of_no_other_port() -> None:
    manifests = rendered("production", "prometheus-operator")
    [monitor] = manifests.of("PodMonitor")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    labels = monitor["spec"]["selector"]["matchLabels"]
    found = {
        one["metadata"]["name"]: port["containerPort"]
        for one in manifests.of("Deployment", "StatefulSet")
        if labels.items() <= one["spec"]["template"]["metadata"]["labels"].items()
        for port in pod(one)["containers"][0]["ports"]
        if port["name"] == endpoint["port"]
    }
    assert found == dict.fromkeys(PROCESSES.keys() - {"migrations"}, 9464)


def test_nodes_of_weaviate_have_the_version_and_the_environment_of_those_that_are_tested() -> None:
    manifests = rendered("production", "weaviate")
    node = container(manifests, "weaviate", "StatefulSet")
    assert node["image"].endswith(f":{VERSION.removeprefix('v')}")
    values, problems = environment(manifests, node)
    assert problems == []
    assert values.items() >= engine_environment().items()


def test_the_schema_is_strict_and_that_of_the_newest_and_oldest_supported_version() -> None:
    newest, oldest = tool.supported_versions()
    wrong = copy.deepcopy(rendered("production").find("Deployment", "retriever"))
    pod(wrong)["terminationGraceSeconds"] = 30
    problems = list(tool.schema_problems([wrong]))
    assert len(problems) == 2
    assert newest in problems[0]
    assert oldest in problems[1]
    unknown = {"apiVersion": "apps/v9", "kind": "Deployment", "metadata": {"name": "x"}}
    assert list(tool.schema_problems([unknown]))


def test_every_place_that_connects_to_the_database_is_in_the_sum_of_connections() -> None:
    """New connections belong into connections() of the rules."""
    opening = re.compile(r"\b(open_pool|open_chunk_store|listening|asyncpg\.connect|create_pool)\(")
    folders = (path for folder in ("services", "gateway") for path in (ROOT / folder).rglob("groundline_*"))
    found = {
        (str(path.relative_to(ROOT)), call)
        for folder in folders
        for path in folder.rglob("*.py")
        for call in opening.findall(path.read_text(encoding="utf-8"))
    }
    assert found == {
        ("gateway/groundline_gateway/administration/servicer.py", "open_pool"),
        ("gateway/groundline_gateway/auditing/recording.py", "open_pool"),
        ("gateway/groundline_gateway/following.py", "open_pool"),
        ("services/coordinator/groundline_coordinator/__main__.py", "open_pool"),
        ("services/ingestor/groundline_ingestor/__main__.py", "listening"),
        ("services/ingestor/groundline_ingestor/__main__.py", "open_pool"),
        # To the databases that sources read; never the suite's own.
        ("services/collector/groundline_collector/adapters/sources/postgres.py", "asyncpg.connect"),
        ("services/retriever/groundline_retriever/__main__.py", "open_chunk_store"),
        ("services/retriever/groundline_retriever/adapters/postgres/store.py", "open_chunk_store"),
        ("services/retriever/groundline_retriever/adapters/postgres/store.py", "open_pool"),
        # Commands that an operator runs by hand, beside what the sum counts.
        ("services/ingestor/groundline_ingestor/index_command.py", "open_pool"),
    }
