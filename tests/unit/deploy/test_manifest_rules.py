"""Every rule about the manifests, broken in a copy of them, is reported."""

import copy
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import manifests as tool
import pytest
import yaml
from groundline_tests.weaviate import ENGINE, engine_environment
from groundline_tests.weaviate import VERSION as TESTED_VERSION
from manifest_rules import (
    BUILD_FILES,
    EXTENSIONS,
    PROCESSES,
    ROOT,
    Manifests,
    Node,
    all_problems,
    base_image_problems,
    compose_problems,
    database_image_problems,
    edges,
    environment,
    image_tag_problems,
    pod,
    server,
)


@pytest.fixture(scope="module", autouse=True)
def _renderer() -> None:
    """kustomize, installed into .venv where the machine has none, as `make lint` does."""
    if tool.renderer() is None:
        assert tool.install_renderer() is None


type Break = Callable[[Manifests], object]


def rendered(overlay: str, *components: str) -> Manifests:
    """The whole suite, as it is applied."""
    applied = tool.whole(tool.DEPLOY / "k8s", overlay, *components)
    documents = (document for directories in applied for document in tool.render(directories))
    return Manifests(" with ".join((overlay, *components)), tuple(documents), complete=True)


@pytest.fixture(scope="module")
def production() -> Manifests:
    return rendered("production")


@pytest.fixture(scope="module")
def with_mtls() -> Manifests:
    return rendered("production", "mtls")


@pytest.fixture(scope="module")
def with_weaviate() -> Manifests:
    return rendered("production", "weaviate")


@pytest.fixture(scope="module")
def with_backups() -> Manifests:
    return rendered("production", "weaviate-backup")


@pytest.fixture(scope="module")
def dev() -> Manifests:
    return rendered("dev")


def copied(manifests: Manifests) -> Manifests:
    return Manifests(manifests.name, copy.deepcopy(manifests.documents), manifests.complete)


def found(manifests: Manifests, kind: str, name: str) -> Node:
    node = manifests.find(kind, name)
    assert node is not None, f"{kind} {name}"
    return node


def deployment(manifests: Manifests, name: str = "retriever") -> Node:
    return found(manifests, "Deployment", name)


def container(manifests: Manifests, name: str = "retriever") -> Node:
    node = server(deployment(manifests, name))
    assert node is not None
    return node


def config(manifests: Manifests, name: str = "retriever") -> dict[str, str]:
    [source] = container(manifests, name)["envFrom"]
    data: dict[str, str] = found(manifests, "ConfigMap", source["configMapRef"]["name"])["data"]
    return data


def policy(manifests: Manifests, name: str = "retriever") -> Node:
    spec: Node = found(manifests, "NetworkPolicy", name)["spec"]
    return spec


def scaler(manifests: Manifests, name: str = "retriever") -> Node:
    spec: Node = found(manifests, "HorizontalPodAutoscaler", name)["spec"]
    return spec


def budget(manifests: Manifests, name: str = "retriever") -> Node:
    spec: Node = found(manifests, "PodDisruptionBudget", name)["spec"]
    return spec


def cluster(manifests: Manifests) -> Node:
    spec: Node = found(manifests, "Cluster", "groundline-database")["spec"]
    return spec


def catalog(manifests: Manifests) -> Node:
    [image] = found(manifests, "ImageCatalog", "groundline-postgres")["spec"]["images"]
    node: Node = image
    return node


def collector(manifests: Manifests) -> dict[str, str]:
    [volume] = pod(deployment(manifests, "otel-collector"))["volumes"]
    data: dict[str, str] = found(manifests, "ConfigMap", volume["configMap"]["name"])["data"]
    return data


def port(manifests: Manifests, name: str = "retriever") -> Node:
    [only] = found(manifests, "Service", name)["spec"]["ports"]
    node: Node = only
    return node


def without(kind: str, name: str) -> Break:
    def remove(manifests: Manifests) -> None:
        kept = [one for one in manifests.documents if one is not found(manifests, kind, name)]
        object.__setattr__(manifests, "documents", tuple(kept))

    return remove


def added(document: Node) -> Break:
    def add(manifests: Manifests) -> None:
        object.__setattr__(manifests, "documents", (*manifests.documents, document))

    return add


def secret(manifests: Manifests) -> Node:
    [node] = [
        entry["valueFrom"]["secretKeyRef"] for entry in container(manifests)["env"] if "valueFrom" in entry
    ]
    reference: Node = node
    return reference


def standby_reads(manifests: Manifests) -> Node:
    [node] = [one for one in container(manifests)["env"] if one["name"].endswith("_READ_DATABASE_URL")]
    variable: Node = node
    return variable


def security(manifests: Manifests) -> Node:
    node: Node = container(manifests)["securityContext"]
    return node


TO_INTERNET = {
    "to": [{"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}}],
    "ports": [{"protocol": "TCP", "port": 443}],
}
FROM_RERANKER = {
    "from": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "reranker"}}}],
    "ports": [{"port": 50051}],
}
BREAKS: dict[str, tuple[str, Break]] = {
    # selectors
    "a Deployment's selector misses its pods": (
        "its selector does not match",
        lambda m: deployment(m)["spec"]["selector"]["matchLabels"].update(tier="search"),
    ),
    "a Service selects nothing": (
        "Service retriever: selects no pod",
        lambda m: found(m, "Service", "retriever")["spec"]["selector"].update(
            {"app.kubernetes.io/name": "search"}
        ),
    ),
    "a Service selects the pods of all": (
        "Service retriever: selects the pods of",
        lambda m: found(m, "Service", "retriever")["spec"].update(
            selector={"app.kubernetes.io/part-of": "groundline"}
        ),
    ),
    "a budget selects nothing": (
        "PodDisruptionBudget retriever: selects no pod",
        lambda m: budget(m)["selector"]["matchLabels"].update(tier="search"),
    ),
    "a policy selects nothing": (
        "NetworkPolicy retriever: selects no pod",
        lambda m: policy(m)["podSelector"]["matchLabels"].update(tier="search"),
    ),
    "an autoscaler scales nothing": (
        "no Deployment search",
        lambda m: scaler(m)["scaleTargetRef"].update(name="search"),
    ),
    "a ServiceAccount is missing": ("no ServiceAccount retriever", without("ServiceAccount", "retriever")),
    # ports
    "the process listens on another port": (
        "retriever: listens on 50099",
        lambda m: config(m).update(GROUNDLINE_PORT="50099"),
    ),
    "the process listens on loopback": (
        "listens on 127.0.0.1",
        lambda m: config(m).update(GROUNDLINE_HOST="127.0.0.1"),
    ),
    "a probe asks another port": (
        "readinessProbe asks port 50052",
        lambda m: container(m)["readinessProbe"]["grpc"].update(port=50052),
    ),
    "a Service leads to an unknown port": (
        "no container has the port web",
        lambda m: port(m).update(targetPort="web"),
    ),
    "a headless Service names another port": (
        "headless, so 80 is not translated",
        lambda m: port(m).update(port=80),
    ),
    "a Service has a cluster address": (
        "not headless",
        lambda m: found(m, "Service", "retriever")["spec"].pop("clusterIP"),
    ),
    "the gateway's probe asks another port": (
        "gateway: livenessProbe asks port 9901",
        lambda m: container(m, "gateway")["livenessProbe"]["httpGet"].update(port=9901),
    ),
    # addresses
    "a target names another port": (
        "retriever_target is dns:///retriever:9",
        lambda m: config(m, "coordinator").update(
            GROUNDLINE_COORDINATOR_RETRIEVER_TARGET="dns:///retriever:9"
        ),
    ),
    "a target reaches one replica only": (
        "does not resolve to every replica",
        lambda m: config(m, "coordinator").update(GROUNDLINE_COORDINATOR_RETRIEVER_TARGET="retriever:50051"),
    ),
    "a target's Service is missing": ("names the Service reranker", without("Service", "reranker")),
    # health
    "a probe asks for a name that the code does not have": (
        "readinessProbe asks for 'groundline.v1.SearchService'",
        lambda m: container(m)["readinessProbe"]["grpc"].update(service="groundline.v1.SearchService"),
    ),
    "liveness depends on the database": (
        "livenessProbe asks for 'groundline.v1.RetrieverService'",
        lambda m: container(m)["livenessProbe"]["grpc"].update(service="groundline.v1.RetrieverService"),
    ),
    "a probe is missing": ("no startupProbe", lambda m: container(m).pop("startupProbe")),
    "the gateway's readiness is that of all": (
        "readinessProbe has to ask GET /",
        lambda m: container(m, "gateway")["readinessProbe"]["httpGet"].update(path="/healthz"),
    ),
    # settings
    "a ConfigMap holds what is no setting": (
        "GROUNDLINE_RETRIEVER_COLOUR is not a setting of groundline-retriever",
        lambda m: config(m).update(GROUNDLINE_RETRIEVER_COLOUR="red"),
    ),
    "a setting of another service": (
        "GROUNDLINE_POOL_MAX_SIZE is not a setting of groundline-reranker",
        lambda m: config(m, "reranker").update(GROUNDLINE_POOL_MAX_SIZE="4"),
    ),
    "a foreign variable": ("FOO is not a setting", lambda m: config(m).update(FOO="1")),
    "a value is wrong": (
        "GROUNDLINE_RETRIEVER_DRAIN_SECONDS",
        lambda m: config(m).update(GROUNDLINE_DRAIN_SECONDS="soon"),
    ),
    "a required setting is missing": (
        "GROUNDLINE_RETRIEVER_DATABASE_URL",
        lambda m: container(m).update(env=[]),
    ),
    "a Secret's key that nobody makes": (
        "from a Secret that nobody makes: groundline-database-app/password",
        lambda m: secret(m).update(key="password"),
    ),
    "a ConfigMap that is not there": (
        "envFrom names what is not there",
        lambda m: container(m)["envFrom"][0]["configMapRef"].update(name="search"),
    ),
    "a ConfigMap that nobody reads": (
        "ConfigMap spare: nobody reads it",
        added({"kind": "ConfigMap", "metadata": {"name": "spare"}, "data": {}}),
    ),
    "the container has another name": (
        "no container named server",
        lambda m: container(m).update(name="main"),
    ),
    "the collector's probe asks a port on loopback": (
        "otel-collector/collector: readinessProbe asks port 13133 of the pod's address, where 127.0.0.1",
        lambda m: collector(m).update(
            {"collector.yaml": collector(m)["collector.yaml"].replace("0.0.0.0:13133", "127.0.0.1:13133")}
        ),
    ),
    # standbys
    "reads are sent to what is no read-only Service": (
        "GROUNDLINE_RETRIEVER_READ_DATABASE_URL names groundline-database-rw",
        lambda m: standby_reads(m).update(value="postgresql://groundline-database-rw:5432"),
    ),
    "reads are sent to standbys that are not there": (
        "but groundline-database has no standby",
        lambda m: found(m, "Cluster", "groundline-database")["spec"].update(instances=1),
    ),
    "a password is in a plain address": (
        "GROUNDLINE_RETRIEVER_READ_DATABASE_URL is a secret",
        lambda m: standby_reads(m).update(value="postgresql://me:secret@groundline-database-ro:5432"),
    ),
    # network
    "a policy is missing": ("retriever: no NetworkPolicy", without("NetworkPolicy", "retriever")),
    "a policy leaves egress open": (
        "leaves a direction open",
        lambda m: policy(m).update(policyTypes=["Ingress"]),
    ),
    "an edge of the code is missing": (
        "coordinator: lacks egress to retriever:50051",
        lambda m: policy(m, "coordinator")["egress"].pop(0),
    ),
    "an edge that no code has": (
        "retriever: allows ingress from reranker:50051",
        lambda m: policy(m)["ingress"].append(FROM_RERANKER),
    ),
    "everyone may reach a service": (
        "retriever: allows ingress from anyone",
        lambda m: policy(m)["ingress"].append({}),
    ),
    "a second policy opens what no code has": (
        "retriever: allows ingress from anyone",
        added(
            {
                "kind": "NetworkPolicy",
                "metadata": {"name": "retriever-open"},
                "spec": {
                    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "retriever"}},
                    "policyTypes": ["Ingress"],
                    "ingress": [{}],
                },
            }
        ),
    ),
    "a hosted model's policy reaches inside": (
        "generator: allows egress to",
        lambda m: policy(m, "generator")["egress"].append(
            {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"protocol": "TCP", "port": 443}]}
        ),
    ),
    "a service without hosted models reaches the internet": (
        "coordinator: allows egress to the internet:443",
        lambda m: policy(m, "coordinator")["egress"].append(TO_INTERNET),
    ),
    "the ingestor's API crawls": (
        "ingestor: allows egress to the internet:80",
        lambda m: policy(m, "ingestor")["egress"].append({**TO_INTERNET, "ports": [{"port": 80}]}),
    ),
    "DNS is cut off": ("lacks egress to dns:53", lambda m: policy(m)["egress"].pop()),
    "telemetry is cut off": (
        "reranker: lacks egress to otel-collector:4317",
        lambda m: policy(m, "reranker")["egress"].pop(1),
    ),
    "the database refuses a service": (
        "NetworkPolicy database: lacks ingress from ",
        lambda m: policy(m, "database")["ingress"][0]["from"].pop(0),
    ),
    "the database's metrics are cut off": (
        "nobody may read the metrics at 9187",
        lambda m: policy(m, "database")["ingress"].pop(),
    ),
    "a policy holds an empty list": (
        "NetworkPolicy ingestor-worker: ingress: [] is not stored",
        lambda m: policy(m, "ingestor-worker").update(ingress=[]),
    ),
    "nothing is denied": ("no NetworkPolicy denies", without("NetworkPolicy", "deny-all")),
    "deny-all allows": (
        "allows something",
        lambda m: policy(m, "deny-all").update(egress=[{}]),
    ),
    # scaling
    "replicas beside an autoscaler": (
        "replicas would undo the autoscaler",
        lambda m: deployment(m)["spec"].update(replicas=3),
    ),
    "an autoscaler's bounds are crossed": ("30 to 10 replicas", lambda m: scaler(m).update(minReplicas=30)),
    "CPU without a request": (
        "no request for cpu",
        lambda m: container(m)["resources"]["requests"].pop("cpu"),
    ),
    "a budget that blocks": ("no node could be drained", lambda m: budget(m).update(maxUnavailable=0)),
    "a budget that allows all": ("replicas go at once", lambda m: budget(m).update(maxUnavailable=2)),
    "a budget of all replicas": (
        "no node could be drained",
        lambda m: (budget(m).pop("maxUnavailable"), budget(m).update(minAvailable=2)),
    ),
    "a database of one instance has a budget": (
        "its budget for a single instance blocks every drain",
        lambda m: cluster(m).update(instances=1),
    ),
    "a database of several instances has no budget": (
        "a drain may take all instances at once",
        lambda m: cluster(m).update(enablePDB=False),
    ),
    "more connections than the database allows": (
        "max_connections is 420, all replicas may open 548: others 22 + coordinator 55 + gateway 22 + ",
        lambda m: scaler(m).update(maxReplicas=20),
    ),
    # drain
    "documents take longer than the gateway drains": (
        "gateway: waits 130 s for requests that may take 600 s",
        lambda m: container(m, "gateway")["lifecycle"]["preStop"]["exec"].update(
            command=["drain-gateway", "127.0.0.1:9901", "5", "130"]
        ),
    ),
    "answers take longer than the coordinator drains": (
        "coordinator: waits 20 s for requests that may take 120 s",
        lambda m: config(m, "coordinator").update(GROUNDLINE_SHUTDOWN_GRACE_SECONDS="20"),
    ),
    "the kubelet does not wait": (
        "killed after 30 s",
        lambda m: pod(deployment(m, "coordinator")).update(terminationGracePeriodSeconds=30),
    ),
    "the drain grows": (
        "retriever: killed after",
        lambda m: config(m).update(GROUNDLINE_DRAIN_SECONDS="60"),
    ),
    "no preStop": ("no preStop", lambda m: container(m).pop("lifecycle")),
    "the gateway's preStop takes longer": (
        "gateway: killed after 625 s",
        lambda m: container(m, "gateway")["lifecycle"]["preStop"]["exec"].update(
            command=["drain-gateway", "127.0.0.1:9901", "5", "700"]
        ),
    ),
    # pods
    "a token": (
        "carries a token",
        lambda m: pod(deployment(m)).update(automountServiceAccountToken=True),
    ),
    "an account that hands out its token": (
        "hands out its token",
        lambda m: found(m, "ServiceAccount", "retriever").pop("automountServiceAccountToken"),
    ),
    "service links": ("a variable for every Service", lambda m: pod(deployment(m)).pop("enableServiceLinks")),
    "root": ("may run as root", lambda m: pod(deployment(m))["securityContext"].update(runAsUser=0)),
    "no seccomp": ("no seccomp", lambda m: pod(deployment(m))["securityContext"].pop("seccompProfile")),
    "privileges": ("may gain privileges", lambda m: security(m).update(allowPrivilegeEscalation=True)),
    "capabilities": ("keeps capabilities", lambda m: security(m).pop("capabilities")),
    "a writable image": (
        "may write to its image",
        lambda m: security(m).update(readOnlyRootFilesystem=False),
    ),
    "no limits": ("limits of CPU and memory", lambda m: container(m)["resources"].pop("limits")),
    "replicas go first": (
        "may take replicas away",
        lambda m: deployment(m)["spec"]["strategy"]["rollingUpdate"].update(maxUnavailable=1),
    ),
    "no spread": ("all be on one node", lambda m: pod(deployment(m)).pop("topologySpreadConstraints")),
    # the database's image
    "a database from elsewhere": (
        "tensorchord/vchord-suite:pg17-20250815 is not built from postgres/Dockerfile",
        lambda m: catalog(m).update(image="tensorchord/vchord-suite:pg17-20250815"),
    ),
    "an image that is not the one that is built": (
        "groundline/postgres:17.9-pg_textsearch-1.0.0 is built with pg_textsearch 1.4.0",
        lambda m: catalog(m).update(image="groundline/postgres:17.9-pg_textsearch-1.0.0"),
    ),
    "another major version than the catalog says": (
        "is not PostgreSQL 16",
        lambda m: (catalog(m).update(major=16), cluster(m)["imageCatalogRef"].update(major=16)),
    ),
    "a keyword engine that is not preloaded": (
        "pg_textsearch is not preloaded",
        lambda m: cluster(m)["postgresql"].update(shared_preload_libraries=[]),
    ),
    "a preloaded library that the image lacks": (
        "preloads timescaledb, which is not in it",
        lambda m: cluster(m)["postgresql"]["shared_preload_libraries"].append("timescaledb"),
    ),
    "an extension that nobody creates": (
        "creates vector, not pg_textsearch, vector",
        lambda m: cluster(m)["bootstrap"]["initdb"]["postInitApplicationSQL"].pop(),
    ),
    # production
    "latest": ("not pinned", lambda m: container(m).update(image="groundline/retriever:latest")),
    "no tag": ("not pinned", lambda m: container(m).update(image="registry:5000/groundline/retriever")),
    "a floating database": (
        "not pinned",
        lambda m: catalog(m).update(image="x:pg17-latest"),
    ),
    "a single replica": ("retriever: a single replica", lambda m: scaler(m).update(minReplicas=1)),
    "no autoscaler": ("reranker: a single replica", without("HorizontalPodAutoscaler", "reranker")),
    "no budget": ("no PodDisruptionBudget", without("PodDisruptionBudget", "retriever")),
    "one database": (
        "groundline-database: a single replica",
        lambda m: cluster(m).update(instances=1),
    ),
    "a database in one zone": (
        "may all share one topology.kubernetes.io/zone",
        lambda m: cluster(m).pop("topologySpreadConstraints"),
    ),
    "a database on one host": (
        "may all share one kubernetes.io/hostname",
        lambda m: cluster(m).pop("affinity"),
    ),
    "a secret in the repository": (
        "a secret in the repository",
        added({"kind": "Secret", "metadata": {"name": "groundline-gateway"}, "stringData": {}}),
    ),
    "a secret as a plain value": (
        "GROUNDLINE_DATABASE_URL is a secret",
        lambda m: container(m).update(
            env=[
                {"name": "GROUNDLINE_DATABASE_URL", "value": "postgresql://groundline:changeme@db/groundline"}
            ]
        ),
    ),
}


def weaviate(manifests: Manifests) -> Node:
    spec: Node = found(manifests, "StatefulSet", "weaviate")["spec"]
    return spec


def weaviate_container(manifests: Manifests) -> Node:
    [only] = pod(found(manifests, "StatefulSet", "weaviate"))["containers"]
    node: Node = only
    return node


def backup_container(manifests: Manifests) -> Node:
    [only] = pod(found(manifests, "CronJob", "weaviate-backup"))["containers"]
    node: Node = only
    return node


def variable(container: Node, name: str) -> Node:
    [only] = [one for one in container["env"] if one["name"] == name]
    node: Node = only
    return node


WEAVIATE_BREAKS: dict[str, tuple[str, Break]] = {
    # addresses
    "a client is told of another address": (
        "retriever: no Service weaviate-grpc:50052",
        lambda m: variable(container(m), "GROUNDLINE_WEAVIATE__GRPC_TARGET").update(
            value="dns:///weaviate-grpc:50052"
        ),
    ),
    "a client is led to nodes that lack what was written": (
        "weaviate-grpc leads to nodes that are not ready",
        lambda m: found(m, "Service", "weaviate-grpc")["spec"].update(publishNotReadyAddresses=True),
    ),
    "a client asks for more replicas than nodes": (
        "ingestor-worker: 5 replicas of each object on 3 nodes",
        lambda m: variable(container(m, "ingestor-worker"), "GROUNDLINE_WEAVIATE__REPLICATION_FACTOR").update(
            value="5"
        ),
    ),
    "clients without nodes": (
        "retriever: no Weaviate at weaviate-grpc:50051",
        without("StatefulSet", "weaviate"),
    ),
    "a key that nobody makes": (
        "weaviate: AUTHENTICATION_APIKEY_ALLOWED_KEYS is from a Secret that nobody makes",
        lambda m: variable(weaviate_container(m), "AUTHENTICATION_APIKEY_ALLOWED_KEYS")["valueFrom"][
            "secretKeyRef"
        ].update(key="keys"),
    ),
    # network
    "a client cannot reach it": (
        "NetworkPolicy ingestor-worker: lacks egress to weaviate:50051",
        without("NetworkPolicy", "ingestor-worker-weaviate"),
    ),
    "it takes no calls of a client": (
        "NetworkPolicy weaviate: lacks ingress from retriever:50051",
        lambda m: policy(m, "weaviate")["ingress"][0]["from"].pop(0),
    ),
    "it takes calls of who has none": (
        "NetworkPolicy weaviate: allows ingress from reranker:50051",
        lambda m: policy(m, "weaviate")["ingress"].append(FROM_RERANKER),
    ),
    "it reaches the internet": (
        "NetworkPolicy weaviate: allows egress to the internet:80",
        lambda m: policy(m, "weaviate")["egress"].append({**TO_INTERNET, "ports": [{"port": 80}]}),
    ),
    "the nodes hear no gossip": (
        "NetworkPolicy weaviate: lacks ingress of the nodes at 7102/UDP",
        lambda m: policy(m, "weaviate")["ingress"][1]["ports"].pop(1),
    ),
    "the nodes may call what they do not": (
        "NetworkPolicy weaviate: allows egress of the nodes at 6060/TCP",
        lambda m: policy(m, "weaviate")["egress"][0]["ports"].append({"protocol": "TCP", "port": 6060}),
    ),
    "it has no policy": ("weaviate: no NetworkPolicy", without("NetworkPolicy", "weaviate")),
    "its policy leaves egress open": (
        "NetworkPolicy weaviate: leaves a direction open",
        lambda m: policy(m, "weaviate").update(policyTypes=["Ingress"]),
    ),
    # one cluster
    "a node more than the others know": (
        "RAFT_JOIN is not weaviate-0:8300,weaviate-1:8300,weaviate-2:8300,weaviate-3:8300",
        lambda m: weaviate(m).update(replicas=4),
    ),
    "a node begins alone": (
        "RAFT_BOOTSTRAP_EXPECT is not 3",
        lambda m: variable(weaviate_container(m), "RAFT_BOOTSTRAP_EXPECT").update(value="1"),
    ),
    "a node looks for others where none are": (
        "CLUSTER_JOIN is not weaviate-nodes",
        lambda m: variable(weaviate_container(m), "CLUSTER_JOIN").update(value="weaviate"),
    ),
    "the nodes' Service has a cluster address": (
        "weaviate-nodes is no headless Service",
        lambda m: found(m, "Service", "weaviate-nodes")["spec"].pop("clusterIP"),
    ),
    "the nodes' Service waits until they are ready": (
        "weaviate-nodes hides nodes that are not ready",
        lambda m: found(m, "Service", "weaviate-nodes")["spec"].pop("publishNotReadyAddresses"),
    ),
    "a node waits for the one before it": (
        "waits for a first node that is not ready alone",
        lambda m: weaviate(m).update(podManagementPolicy="OrderedReady"),
    ),
    "a port that is not declared": (
        "weaviate: does not declare 8400/TCP",
        lambda m: variable(weaviate_container(m), "RAFT_PORT").update(value="8400"),
    ),
    "Go may take all memory": (
        "GOMEMLIMIT leaves nothing",
        lambda m: variable(weaviate_container(m), "GOMEMLIMIT").update(value="4GiB"),
    ),
    # as for all pods
    "its selector misses its pods": (
        "StatefulSet weaviate: its selector does not match its pods",
        lambda m: weaviate(m)["selector"]["matchLabels"].update(tier="search"),
    ),
    "its probe asks where nothing listens": (
        "weaviate/weaviate: readinessProbe asks port 50051",
        lambda m: weaviate_container(m)["readinessProbe"]["httpGet"].update(port="grpc"),
    ),
    "it may write to its image": (
        "weaviate/weaviate: may write to its image",
        lambda m: weaviate_container(m)["securityContext"].update(readOnlyRootFilesystem=False),
    ),
    "all nodes on one machine": (
        "weaviate: its instances may all share one kubernetes.io/hostname",
        lambda m: weaviate(m)["template"]["spec"]["topologySpreadConstraints"].pop(),
    ),
    "it has no budget": ("weaviate: no PodDisruptionBudget", without("PodDisruptionBudget", "weaviate")),
    "its budget lets all go": (
        "PodDisruptionBudget weaviate: lets all 3 replicas go at once",
        lambda m: budget(m, "weaviate").update(maxUnavailable=3),
    ),
    "a floating version": (
        "weaviate/weaviate: image cr.weaviate.io/semitechnologies/weaviate:latest is not pinned",
        lambda m: weaviate_container(m).update(image="cr.weaviate.io/semitechnologies/weaviate:latest"),
    ),
    # backups
    "the nodes refuse who asks for backups": (
        "NetworkPolicy weaviate: lacks ingress from weaviate-backup:8080",
        lambda m: policy(m, "weaviate-bucket").pop("ingress"),
    ),
    "the nodes cannot reach the bucket": (
        "NetworkPolicy weaviate: lacks egress to the internet:443",
        lambda m: policy(m, "weaviate-bucket").pop("egress"),
    ),
    "who asks for backups may reach more": (
        "NetworkPolicy weaviate-backup: allows egress to the internet:443",
        lambda m: policy(m, "weaviate-backup")["egress"].append(TO_INTERNET),
    ),
    "who asks for backups is sent elsewhere": (
        "weaviate-backup: no Service weaviate:80",
        lambda m: variable(backup_container(m), "BACKUPS").update(value="http://weaviate:80/v1/backups/s3"),
    ),
    "who asks for backups may run as root": (
        "weaviate-backup: may run as root",
        lambda m: pod(found(m, "CronJob", "weaviate-backup"))["securityContext"].update(runAsUser=0),
    ),
    "a key of the bucket that nobody makes": (
        "weaviate: AWS_ACCESS_KEY_ID is from a Secret that nobody makes",
        lambda m: variable(weaviate_container(m), "AWS_ACCESS_KEY_ID")["valueFrom"]["secretKeyRef"].update(
            key="id"
        ),
    ),
}


@pytest.mark.parametrize("broken", WEAVIATE_BREAKS)
def test_what_is_broken_about_weaviate_is_reported(broken: str, with_backups: Manifests) -> None:
    expected, break_it = WEAVIATE_BREAKS[broken]
    manifests = copied(with_backups)
    break_it(manifests)
    assert any(expected in problem for problem in all_problems(manifests)), all_problems(manifests)


def test_nodes_of_weaviate_have_the_version_and_the_environment_of_those_that_are_tested(
    with_weaviate: Manifests,
) -> None:
    node = weaviate_container(with_weaviate)
    assert node["image"].endswith(f":{TESTED_VERSION.removeprefix('v')}")
    values, problems = environment(with_weaviate, node)
    assert problems == []
    tested = engine_environment()
    assert values.items() >= tested.items()
    assert tested["ASYNC_INDEXING"] == "true"
    # The rest is about where a node is, and what only it has.
    assert values.keys() - tested.keys() == {
        "AUTHENTICATION_APIKEY_ALLOWED_KEYS",
        "CLUSTER_BASIC_AUTH_PASSWORD",
        "CLUSTER_BIND_ADDR",
        "CLUSTER_DATA_BIND_PORT",
        "CLUSTER_GOSSIP_BIND_PORT",
        "CLUSTER_HOSTNAME",
        "CLUSTER_JOIN",
        "GOMEMLIMIT",
        "GRPC_PORT",
        "PERSISTENCE_DATA_PATH",
        "RAFT_BOOTSTRAP_EXPECT",
        "RAFT_INTERNAL_RPC_PORT",
        "RAFT_JOIN",
        "RAFT_PORT",
    }


def test_every_place_that_connects_to_the_database_is_in_the_sum_of_connections() -> None:
    """Pools, and connections beside them: what is new here belongs into connections() of the rules."""
    opening = re.compile(r"\b(open_pool|open_chunk_store|listening|asyncpg\.connect|create_pool)\(")
    folders = (path for folder in ("services", "gateway") for path in (ROOT / folder).rglob("groundline_*"))
    found = {
        (str(path.relative_to(ROOT)), call)
        for folder in folders
        for path in folder.rglob("*.py")
        for call in opening.findall(path.read_text(encoding="utf-8"))
    }
    assert found == {
        ("gateway/groundline_gateway/following.py", "open_pool"),
        ("services/coordinator/groundline_coordinator/__main__.py", "open_pool"),
        ("services/ingestor/groundline_ingestor/__main__.py", "listening"),
        ("services/ingestor/groundline_ingestor/__main__.py", "open_pool"),
        # To the databases that sources read; never the suite's own.
        ("services/ingestor/groundline_ingestor/adapters/sources/postgres.py", "asyncpg.connect"),
        ("services/retriever/groundline_retriever/__main__.py", "open_chunk_store"),
        ("services/retriever/groundline_retriever/adapters/postgres.py", "open_chunk_store"),
        ("services/retriever/groundline_retriever/adapters/postgres.py", "open_pool"),
        # Commands that an operator runs by hand, beside what the sum counts.
        ("services/ingestor/groundline_ingestor/importing.py", "open_pool"),
        ("services/ingestor/groundline_ingestor/index_command.py", "open_pool"),
    }


@pytest.mark.parametrize("broken", BREAKS)
def test_what_is_broken_is_reported(broken: str, production: Manifests) -> None:
    expected, break_it = BREAKS[broken]
    manifests = copied(production)
    break_it(manifests)
    assert any(expected in problem for problem in all_problems(manifests)), all_problems(manifests)


def test_nothing_is_reported_that_is_sound(
    production: Manifests,
    with_mtls: Manifests,
    with_weaviate: Manifests,
    with_backups: Manifests,
    dev: Manifests,
) -> None:
    assert all_problems(production) == []
    assert all_problems(with_mtls) == []
    assert all_problems(with_weaviate) == []
    assert all_problems(with_backups) == []
    assert all_problems(dev) == []


def test_a_proxy_that_is_probed_on_loopback_is_reported(with_mtls: Manifests) -> None:
    manifests = copied(with_mtls)
    [proxy] = pod(deployment(manifests))["initContainers"]
    proxy["startupProbe"]["tcpSocket"]["port"] = 15001
    assert all_problems(manifests) == [
        "retriever/mtls: startupProbe asks port 15001 of the pod's address, where 127.0.0.1 listens"
    ]


@pytest.mark.parametrize("kind", ["Namespace", "Cluster"])
def test_services_that_are_deleted_together_with_the_data_are_reported(
    kind: str, production: Manifests
) -> None:
    manifests = Manifests("overlays/production", production.documents)
    assert any(
        problem.startswith(kind) and "the data with it" in problem for problem in all_problems(manifests)
    )


@pytest.mark.parametrize("component", ["hosted-models", "hosted-embeddings", "web-sources"])
def test_what_opens_a_way_to_the_internet_is_sound(component: str) -> None:
    assert all_problems(rendered("production", component)) == []


def test_a_call_that_passes_by_the_proxy_is_reported(with_mtls: Manifests) -> None:
    manifests = copied(with_mtls)
    [entry] = [
        one
        for one in container(manifests, "coordinator")["env"]
        if one["name"] == "GROUNDLINE_COORDINATOR_RERANKER_TARGET"
    ]
    entry["value"] = "dns:///reranker:50051"
    assert any("passes by the proxy" in problem for problem in all_problems(manifests))


@pytest.mark.parametrize(
    ("image", "built", "problem"),
    [
        ("17.9-pg_textsearch-1.1.0", "PG_TEXTSEARCH_VERSION=1.1.0", "it silently loses rows"),
        ("17.9-pg_textsearch-2.0.0", "PG_TEXTSEARCH_VERSION=2.0.0", "pg_textsearch 2.0.0 is not supported"),
        ("17.9-vchord_bm25-0.2.1", "VCHORD_BM25_VERSION=0.2.1", "vchord_bm25 0.2.1 is not supported"),
    ],
)
def test_an_engine_in_the_image_that_the_services_refuse_is_reported(
    image: str, built: str, problem: str, tmp_path: Path
) -> None:
    build_file = tmp_path / "Dockerfile"
    build_file.write_text(f"ARG POSTGRES_VERSION=17.9\nARG {built}\n")
    extensions = EXTENSIONS[image.split("-")[1]]
    problems = database_image_problems(f"groundline/postgres:{image}", extensions, None, build_file)
    assert [problem in text for text in problems] == [True]


def test_the_edges_are_read_from_the_settings() -> None:
    assert edges(PROCESSES["coordinator"]) >= {
        ("retriever", 50051),
        ("reranker", 50051),
        ("generator", 50051),
    }
    assert ("database", 5432) not in edges(PROCESSES["reranker"])


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """A copy of deploy/ whose files may be changed."""
    return shutil.copytree(tool.DEPLOY, tmp_path / "deploy")


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_a_second_place_for_a_release_is_reported(deploy: Path) -> None:
    assert list(image_tag_problems(deploy / "k8s")) == []
    edit(deploy / "k8s/base/retriever/deployment.yaml", "groundline/retriever", "groundline/retriever:0.2.0")
    assert [problem for problem in image_tag_problems(deploy / "k8s") if "base/retriever" in problem]


def test_an_image_without_a_release_is_reported(deploy: Path) -> None:
    edit(deploy / "k8s/images/kustomization.yaml", "name: groundline/reranker", "name: groundline/ranker")
    assert list(image_tag_problems(deploy / "k8s")) == [
        "the release of groundline/reranker is named in: no place"
    ]


def test_what_does_not_render_is_reported(deploy: Path) -> None:
    edit(deploy / "k8s/base/reranker/kustomization.yaml", "scaling.yaml", "scales.yaml")
    assert any("base/reranker: does not render" in problem for problem in tool.rendered(deploy / "k8s")[1])


def test_the_schema_is_strict_and_that_of_the_newest_and_oldest_supported_version(
    production: Manifests,
) -> None:
    newest, oldest = tool.supported_versions()
    assert newest > oldest
    wrong = copy.deepcopy(deployment(production))
    pod(wrong)["terminationGraceSeconds"] = 30
    problems = list(tool.schema_problems([wrong]))
    assert [version in problem for problem, version in zip(problems, (newest, oldest), strict=True)] == [
        True,
        True,
    ]
    unknown = {"apiVersion": "apps/v9", "kind": "Deployment", "metadata": {"name": "x"}}
    assert list(tool.schema_problems([unknown]))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "GROUNDLINE_LOG_FORMAT: json",
            "GROUNDLINE_LOG_STYLE: json",
            "GROUNDLINE_LOG_STYLE is not a setting",
        ),
        ('GROUNDLINE_PORT: "50051"', 'GROUNDLINE_PORT: "many"', "_PORT"),
        ("dns:///reranker:50051", "dns:///reranker:9", "the service is reranker:50051"),
        (
            "shared_preload_libraries=pg_textsearch",
            "max_connections=200",
            "compose: groundline/postgres:17.9-pg_textsearch-1.4.0: pg_textsearch is not preloaded",
        ),
        ("17.9-pg_textsearch-1.4.0", "17.9-pg_textsearch-1.4.1", "is built with pg_textsearch 1.4.0"),
        ("contrib:0.148.0@", "contrib:latest@", "not pinned to a release"),
        ("contrib:0.148.0@sha256:8164", "contrib:0.148.0@sha256:", "not pinned by digest"),
        ("cap_drop: [ALL]", "cap_drop: [MKNOD]", "retriever: keeps capabilities"),
        ('["no-new-privileges:true"]', "[]", "gateway: may gain privileges"),
        ("mem_limit: 1g", "mem_limit: 0", "otel-collector: no mem_limit"),
        ("pids_limit: 256", "pids_limit: 0", "database: no pids_limit"),
        ("  reranker:\n", "  ranker:\n", "no service reranker"),
    ],
)
def test_a_broken_compose_file_is_reported(old: str, new: str, expected: str, deploy: Path) -> None:
    assert list(compose_problems(deploy / "compose.yaml")) == []
    edit(deploy / "compose.yaml", old, new)
    assert any(expected in problem for problem in compose_problems(deploy / "compose.yaml"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("weaviate:50051", "weaviate:50052", "retriever: is sent to weaviate:50052 for Weaviate"),
        ("http://weaviate:8080", "http://weaviate:80", "ingestor: is sent to weaviate:80 for Weaviate"),
        ("  weaviate:\n    #", "  engine:\n    #", "retriever: no service weaviate"),
        ("WEAVIATE__API_KEY", "WEAVIATE__KEY", "ingestor: GROUNDLINE_WEAVIATE__KEY is not a setting"),
        ("weaviate:1.39.0", "weaviate:latest", "weaviate:latest is not pinned to a release"),
        ("cap_drop: [ALL]", "cap_drop: []", "weaviate: keeps capabilities"),
        ("mem_limit: 4g", "mem_limit: 0", "weaviate: no mem_limit"),
    ],
)
def test_a_broken_compose_file_for_weaviate_is_reported(
    old: str, new: str, expected: str, deploy: Path
) -> None:
    files = (deploy / "compose.yaml", deploy / "compose.weaviate.yaml")
    assert list(compose_problems(*files)) == []
    edit(files[1], old, new)
    assert any(expected in problem for problem in compose_problems(*files))


def test_the_composed_node_of_weaviate_has_the_version_and_the_environment_of_those_that_are_tested() -> None:
    file = tool.DEPLOY / "compose.weaviate.yaml"
    node = yaml.safe_load(file.read_text())["services"]["weaviate"]
    assert node["image"].endswith(f":{TESTED_VERSION.removeprefix('v')}")
    assert [(file.parent / path).resolve() for path in node["env_file"]] == [ENGINE]
    assert not node["environment"].keys() & engine_environment().keys()


@pytest.mark.parametrize("build_file", BUILD_FILES, ids=lambda path: path.parent.name)
def test_base_images_are_known_by_digest(build_file: Path, tmp_path: Path) -> None:
    assert list(base_image_problems(build_file)) == []
    broken = tmp_path / "Dockerfile"
    broken.write_text(re.sub("@sha256:[0-9a-f]+", "", build_file.read_text()))
    assert any("is not pinned by digest" in problem for problem in base_image_problems(broken))
