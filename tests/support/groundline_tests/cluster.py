"""What a cluster for tests holds before the suite is applied, and how long to wait for what is."""

import asyncio

import manifests as tool
import yaml

from groundline_tests.control_plane import Cluster, Node

K8S = tool.DEPLOY / "k8s"
ZONES = {"a": ("a1", "a2"), "b": ("b1", "b2"), "c": ("c1", "c2")}
OVERLAYS = {"dev": "groundline-dev", "production": "groundline"}
"""Overlay → its namespace."""

EMPTY_NAMESPACE = "groundline-empty"
"""As restricted as the overlays' own, and without anything in it."""

SECRETS = {
    "groundline-database-app": "uri=postgresql://groundline:example@database/groundline",
    "groundline-gateway": "api-keys=[]",
}

WAIT = "--timeout=300s"
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
SETTLE_SECONDS = 300
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def nodes() -> str:
    """Six machines in three zones."""
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
    """Volumes for claims: nothing here makes any."""
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


def empty_namespace() -> str:
    described = yaml.safe_load((K8S / "overlays/production/database/namespace.yaml").read_text())
    described["metadata"]["name"] = EMPTY_NAMESPACE
    return yaml.safe_dump(described)


def instances(namespace: str, count: int) -> str:
    """The database's pods, labelled as CloudNativePG labels them: its operator does not run here."""
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
    """Ready replicas of Deployments and StatefulSets, once as many as each or its autoscaler wants."""
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            scalers = await cluster.objects("horizontalpodautoscaler", namespace)
            smallest = {one["spec"]["scaleTargetRef"]["name"]: one["spec"]["minReplicas"] for one in scalers}
            scaled = await cluster.objects("deployment,statefulset", namespace)
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
    """How many pods each budget lets go now."""
    budgets = await cluster.objects("poddisruptionbudget", namespace)
    return {one["metadata"]["name"]: one["status"]["disruptionsAllowed"] for one in budgets}


def failures(events: list[Node]) -> list[str]:
    """Pods that were not admitted, as events tell."""
    return [event["message"] for event in events if event["reason"] == "FailedCreate"]
