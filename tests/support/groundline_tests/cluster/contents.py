"""Contents of a test cluster before the suite is applied, and waits for it."""

import asyncio
from typing import Final

import manifests as tool
import yaml
from groundline_tests.cluster.control_plane import Cluster, Node

K8S: Final = tool.DEPLOY / "k8s"
ZONES: Final = {"a": ("a1", "a2"), "b": ("b1", "b2"), "c": ("c1", "c2")}
OVERLAYS: Final = {"dev": "groundline-dev", "production": "groundline"}
"""Namespace by overlay."""

EMPTY: Final = {"dev": "groundline-dev-empty", "production": "groundline-empty"}
"""Overlay → a namespace with the labels of its own, and without anything in it."""

SECRETS: Final = {
    "groundline-database-app": "uri=postgresql://groundline:example@database/groundline",
    "groundline-gateway": "api-keys=[]",
}

WAIT: Final = "--timeout=300s"
DRAIN: Final = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s")
"""kubectl waits longer than the two minutes for which a budget counts an evicted pod as going, if its
controller never saw it go: a StatefulSet's next pod has its name, and kwok ends pods at once."""

SETTLE_SECONDS: Final = 300
COUNTS: Final = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def nodes() -> str:
    """Return six machines in three zones."""
    described = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "topology.kubernetes.io/zone": zone,
                },
            },
            "status": {
                kind: {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
                for kind in ("capacity", "allocatable")
            },
        }
        for zone, names in ZONES.items()
        for name in names
    ]
    return yaml.safe_dump_all(described)


def volumes(count: int) -> str:
    """Return volumes for claims, which nothing provisions here."""
    described = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{number}"},
            "spec": {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": f"/volumes/{number}"},
            },
        }
        for number in range(1, count + 1)
    ]
    return yaml.safe_dump_all(described)


def empty_namespaces() -> str:
    described = []
    for overlay, name in EMPTY.items():
        namespace = yaml.safe_load((K8S / "overlays" / overlay / "database/namespace.yaml").read_text())
        namespace["metadata"]["name"] = name
        described.append(namespace)
    return yaml.safe_dump_all(described)


def instances(namespace: str, count: int) -> str:
    """Return the database's pods, labelled as CloudNativePG labels them: its operator does not run here."""
    described = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"groundline-database-{number}",
                "namespace": namespace,
                "labels": {"cnpg.io/cluster": "groundline-database"},
            },
            "spec": {
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 999,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "postgres",
                        "image": "groundline/postgres",
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        }
        for number in range(1, count + 1)
    ]
    return yaml.safe_dump_all(described)


async def settled(cluster: Cluster, namespace: str) -> dict[str, int]:
    """Return ready replicas of Deployments and StatefulSets, once as many as each or its autoscaler wants."""
    async with cluster.client() as client, asyncio.timeout(SETTLE_SECONDS):

        async def listed(kinds: str) -> list[Node]:
            # To start kubectl each time takes more.
            group, kind = kinds.rsplit("/", 1)
            response = await client.get(f"/apis/{group}/namespaces/{namespace}/{kind}")
            items: list[Node] = response.raise_for_status().json()["items"]
            return items

        while True:
            scalers = await listed("autoscaling/v2/horizontalpodautoscalers")
            smallest = {one["spec"]["scaleTargetRef"]["name"]: one["spec"]["minReplicas"] for one in scalers}
            scaled = [*await listed("apps/v1/deployments"), *await listed("apps/v1/statefulsets")]
            wanted = {
                one["metadata"]["name"]: smallest.get(one["metadata"]["name"], one["spec"]["replicas"])
                for one in scaled
            }
            if wanted and all(_is_settled(one, wanted[one["metadata"]["name"]]) for one in scaled):
                return wanted
            await asyncio.sleep(0.5)


def _is_settled(workload: Node, wanted: int) -> bool:
    status = workload["status"]
    counts = [status.get(key, 0) for key in COUNTS]
    current = status.get("observedGeneration") == workload["metadata"]["generation"]
    return current and counts == [wanted] * len(counts)


async def evictions_allowed(cluster: Cluster, namespace: str) -> dict[str, int]:
    """Return how many pods each budget lets go now."""
    budgets = await cluster.objects("poddisruptionbudget", namespace)
    return {one["metadata"]["name"]: one["status"]["disruptionsAllowed"] for one in budgets}


def failures(events: list[Node]) -> list[str]:
    """Return the pods that were not admitted, according to the events."""
    return [event["message"] for event in events if event["reason"] == "FailedCreate"]
