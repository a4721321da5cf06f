"""deploy/k8s/policies, each refusing on the API server what it is for."""

import asyncio
import copy
import re
from collections.abc import Callable

import manifests as tool
import pytest
import yaml
from groundline_tests.cluster.contents import EMPTY, K8S
from groundline_tests.cluster.control_plane import Cluster, Node

type Break = Callable[[Node], object]

TARGETS = {
    "production": (K8S / "overlays/production",),
    "database": (K8S / "overlays/production/database",),
    "small database": (K8S / "overlays/dev/database",),
    "weaviate": (K8S / "overlays/production", K8S / "components/weaviate-backup"),
}


def pod(workload: Node) -> Node:
    spec: Node = workload["spec"]["template"]["spec"]
    return spec


def server(workload: Node) -> Node:
    container: Node = pod(workload)["containers"][0]
    return container


def variable(workload: Node, name: str) -> Node:
    [entry] = [one for one in server(workload)["env"] if one["name"] == name]
    found: Node = entry
    return found


# Target, kind, name → what is wrong with it and what is said of it.
REFUSED: dict[str, tuple[str, str, str, Break, str]] = {
    "a token": (
        "production", "Deployment", "retriever",
        lambda m: pod(m).pop("automountServiceAccountToken"), "carries a token",
    ),
    "service links": (
        "production", "Deployment", "retriever",
        lambda m: pod(m).update(enableServiceLinks=True), "a variable for every Service",
    ),
    "a writable image": (
        "production", "Deployment", "retriever",
        lambda m: server(m)["securityContext"].pop("readOnlyRootFilesystem"), "may write to its image",
    ),
    "no limits": (
        "production", "Deployment", "retriever",
        lambda m: server(m)["resources"]["limits"].pop("cpu"), "lacks requests or limits",
    ),
    "no requests, which an autoscaler compares with": (
        "production", "Deployment", "retriever",
        lambda m: server(m)["resources"].pop("requests"), "lacks requests or limits",
    ),
    "latest": (
        "production", "Deployment", "retriever",
        lambda m: server(m).update(image="groundline/retriever:latest"), "is the latest",
    ),
    "no tag": (
        "production", "Deployment", "retriever",
        lambda m: server(m).update(image="registry:5000/groundline/retriever"), "neither a release",
    ),
    "another's image without its digest": (
        "production", "Deployment", "otel-collector",
        lambda m: server(m).update(image="otel/opentelemetry-collector-contrib:0.148.0"), "neither a release",
    ),
    "a password in a plain value": (
        "production", "Deployment", "retriever",
        lambda m: server(m)["env"].append({"name": "A", "value": "postgresql://groundline:changeme@db/groundline"}),
        "has a secret as a plain value",
    ),
    "a key in a plain value": (
        "production", "Deployment", "generator",
        lambda m: server(m).update(env=[{"name": "GROUNDLINE_GENERATOR_GEMINI_API_KEY", "value": "a"}]),
        "has a secret as a plain value",
    ),
    "a password in a ConfigMap": (
        "production", "ConfigMap", "retriever",
        lambda m: m["data"].update(A="postgresql://groundline:changeme@db/groundline"), "holds a secret",
    ),
    "a key in a ConfigMap": (
        "production", "ConfigMap", "retriever",
        lambda m: m["data"].update(GROUNDLINE_GENERATOR_GEMINI_API_KEY="a"), "holds a secret",
    ),
    "no time until the last requests have arrived": (
        "production", "Deployment", "retriever",
        lambda m: server(m).pop("lifecycle"), "set lifecycle.preStop",
    ),
    "an account that hands out its token": (
        "production", "ServiceAccount", "retriever",
        lambda m: m.pop("automountServiceAccountToken"), "hands out its token",
    ),
    "replicas go first": (
        "production", "Deployment", "retriever",
        lambda m: m["spec"]["strategy"]["rollingUpdate"].update(maxUnavailable=1), "may take replicas away",
    ),
    "no spread": (
        "production", "Deployment", "retriever",
        lambda m: pod(m).pop("topologySpreadConstraints"), "may all be on one machine",
    ),
    "no spread over zones": (
        "production", "Deployment", "otel-collector",
        lambda m: pod(m)["topologySpreadConstraints"].pop(0), "in one zone",
    ),
    "a budget that blocks": (
        "production", "PodDisruptionBudget", "retriever",
        lambda m: m["spec"].update(maxUnavailable=0), "blocks every drain",
    ),
    "a Service with a cluster address": (
        "production", "Service", "retriever",
        lambda m: m["spec"].pop("clusterIP"), "has to be headless",
    ),
    "one replica in production": (
        "production", "HorizontalPodAutoscaler", "retriever",
        lambda m: m["spec"].update(minReplicas=1), "a single replica",
    ),
    "a budget for one instance": (
        "small database", "Cluster", "groundline-database",
        lambda m: m["spec"].pop("enablePDB"), "blocks every drain",
    ),
    "no budget for several instances": (
        "database", "Cluster", "groundline-database",
        lambda m: m["spec"].update(enablePDB=False), "a budget is for several",
    ),
    "one instance in production": (
        "database", "Cluster", "groundline-database",
        lambda m: m["spec"].update(instances=1, enablePDB=False), "a single instance",
    ),
    "a database on one machine": (
        "database", "Cluster", "groundline-database",
        lambda m: m["spec"].pop("affinity"), "share one machine",
    ),
    "a database in one zone": (
        "database", "Cluster", "groundline-database",
        lambda m: m["spec"].pop("topologySpreadConstraints"), "share one zone",
    ),
    "a floating database": (
        "database", "ImageCatalog", "groundline-postgres",
        lambda m: m["spec"]["images"][0].update(image="x:pg17-latest"), "not pinned to a release",
    ),
    "a node more than the others know": (
        "weaviate", "StatefulSet", "weaviate", lambda m: m["spec"].update(replicas=4), "RAFT_JOIN",
    ),
    "a node begins alone": (
        "weaviate", "StatefulSet", "weaviate",
        lambda m: variable(m, "RAFT_BOOTSTRAP_EXPECT").update(value="1"), "RAFT_BOOTSTRAP_EXPECT",
    ),
    "a node looks for others where none are": (
        "weaviate", "StatefulSet", "weaviate",
        lambda m: variable(m, "CLUSTER_JOIN").update(value="weaviate"), "CLUSTER_JOIN",
    ),
    "a node waits for the one before it": (
        "weaviate", "StatefulSet", "weaviate",
        lambda m: m["spec"].update(podManagementPolicy="OrderedReady"), "Parallel",
    ),
    "Go may take all memory": (
        "weaviate", "StatefulSet", "weaviate",
        lambda m: variable(m, "GOMEMLIMIT").update(value="8GiB"), "GOMEMLIMIT",
    ),
    "a port that is not declared": (
        "weaviate", "StatefulSet", "weaviate",
        lambda m: server(m)["ports"].pop(), "is not declared",
    ),
    "all nodes on one machine": (
        "weaviate", "StatefulSet", "weaviate",
        lambda m: pod(m)["topologySpreadConstraints"].pop(), "share one machine",
    ),
    "two nodes on one machine, where there are only two": (
        "weaviate", "StatefulSet", "weaviate",
        lambda m: pod(m)["topologySpreadConstraints"][1].pop("minDomains"), "minDomains",
    ),
    "nodes that are hidden until they are ready": (
        "weaviate", "Service", "weaviate-nodes",
        lambda m: m["spec"].pop("publishNotReadyAddresses"), "before they are ready",
    ),
    "a backup's job with a token": (
        "weaviate", "CronJob", "weaviate-backup",
        lambda m: m["spec"]["jobTemplate"]["spec"]["template"]["spec"].pop("automountServiceAccountToken"),
        "carries a token",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Node]]:
    return {name: tool.render(directories) for name, directories in TARGETS.items()}


@pytest.mark.parametrize("broken", REFUSED)
async def test_each_break_is_refused(broken: str, cluster: Cluster, rendered: dict[str, list[Node]]) -> None:
    target, kind, name, break_it, expected = REFUSED[broken]
    # A ConfigMap's name ends in a hash of what it holds.
    named = re.compile(rf"{name}(-[a-z0-9]{{10}})?")
    [found] = [
        one for one in rendered[target] if one["kind"] == kind and named.fullmatch(one["metadata"]["name"])
    ]
    document = copy.deepcopy(found)
    # As restricted, and empty: nothing is merged with what is there.
    document["metadata"]["namespace"] = EMPTY["dev" if target == "small database" else "production"]
    create = ("create", "--dry-run=server", "--filename", "-")
    break_it(document)
    for _ in range(60):
        ended = await cluster.kubectl(*create, stdin=yaml.safe_dump(document))
        if ended.code != 0:
            break
        # The API server takes up a new policy after some seconds.
        await asyncio.sleep(1)
    assert "ValidatingAdmissionPolicy" in ended.err
    assert expected in ended.err
