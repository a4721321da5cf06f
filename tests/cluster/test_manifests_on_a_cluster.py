"""deploy/k8s on a real control plane: what it takes, what comes of it, how a rollout and a drain go."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import manifests as tool
import pytest
import yaml
from groundline_tests.cluster.contents import (
    DRAIN,
    EMPTY,
    K8S,
    OVERLAYS,
    evictions_allowed,
    failures,
    settled,
)
from groundline_tests.cluster.control_plane import Cluster, Ended, Node, watched
from project import VERSION

NEXT_RELEASE = "999.0.0"
STRICT = (
    *("--server-side", "--dry-run=server", "--validate=strict"),
    # As somebody else than who applied the rest of it.
    *("--field-manager=check", "--force-conflicts"),
)

namespaces = pytest.mark.parametrize("namespace", OVERLAYS.values())


async def test_strict_validation_takes_each_object_of_each_target_without_a_warning(
    cluster: Cluster,
) -> None:
    """In a namespace that is empty, so that nothing is merged with what is there."""
    targets, problems = await asyncio.to_thread(tool.rendered, K8S)
    assert problems == []
    documents = tool.distinct(targets)
    for document in documents:
        if namespace := document["metadata"].get("namespace"):
            document["metadata"]["namespace"] = EMPTY["dev" if namespace == OVERLAYS["dev"] else "production"]
    ended = await cluster.kubectl("apply", *STRICT, "--filename", "-", stdin=yaml.safe_dump_all(documents))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("serverside-applied (server dry run)") == len(documents)


async def test_an_unknown_field_is_refused(applied: Cluster) -> None:
    documents = await asyncio.to_thread(tool.render, (K8S / "overlays/production/database",))
    [database] = [one for one in documents if one["kind"] == "Cluster"]
    database["spec"]["instanzes"] = 3
    ended = await applied.kubectl("apply", *STRICT, "--filename", "-", stdin=yaml.safe_dump(database))
    assert ended.code != 0
    assert "instanzes" in ended.err


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("part", ["", "database", "migrations"])
async def test_what_is_applied_differs_in_nothing(overlay: str, part: str, applied: Cluster) -> None:
    ended = await applied.kubectl("diff", "--kustomize", K8S / "overlays" / overlay / part)
    assert ended == Ended(0, "", "")


def name_of(pod: Node) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/name"])


def of_kind(objects: list[Node], kind: str, labels: Mapping[str, str] = MappingProxyType({})) -> list[Node]:
    """Return the objects of a kind that have all of the labels; kubectl takes longer for each selector."""
    return [
        one
        for one in objects
        if one["kind"] == kind and labels.items() <= one["metadata"].get("labels", {}).items()
    ]


@namespaces
async def test_restricted_admits_every_pod(namespace: str, applied: Cluster) -> None:
    wanted = await settled(applied, namespace)
    pods = await applied.objects("pods", namespace, "app.kubernetes.io/part-of=groundline")
    running = Counter(name_of(pod) for pod in pods if pod["status"]["phase"] == "Running")
    assert running == wanted
    assert failures(await applied.objects("events", namespace)) == []


async def test_restricted_refuses_a_pod_with_privileges(applied: Cluster) -> None:
    ended = await applied.kubectl("--namespace", "groundline", "run", "other", "--image", "other")
    assert ended.code != 0
    assert 'violates PodSecurity "restricted' in ended.err


@namespaces
async def test_every_service_leads_to_the_pods_of_its_name(namespace: str, applied: Cluster) -> None:
    wanted = await settled(applied, namespace)
    everything = await applied.objects("service,endpointslice,pods", namespace)
    for service in of_kind(everything, "Service"):
        name = service["metadata"]["name"]
        slices = of_kind(everything, "EndpointSlice", {"kubernetes.io/service-name": name})
        ready = {
            endpoint["targetRef"]["name"]
            for one in slices
            for endpoint in one["endpoints"]
            if endpoint["conditions"]["ready"]
        }
        pods = of_kind(everything, "Pod", {"app.kubernetes.io/name": name})
        assert ready == {pod["metadata"]["name"] for pod in pods}
        assert len(ready) == wanted[name]
        assert all(one["ports"] for one in slices)
        if service["spec"]["clusterIP"] == "None":
            # The address is a pod's, so no port is translated.
            led_to = {port["port"] for one in slices for port in one["ports"]}
            assert led_to == {port["port"] for port in service["spec"]["ports"]}


async def test_every_autoscaler_scales_a_deployment_that_leaves_replicas_to_it(applied: Cluster) -> None:
    documents = await asyncio.to_thread(tool.render, (K8S / "overlays/production",))
    given = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "Deployment"}
    for scaler in await applied.objects("horizontalpodautoscaler", "groundline"):
        target = scaler["spec"]["scaleTargetRef"]
        assert target["kind"] == "Deployment"
        assert "replicas" not in given[target["name"]]


async def test_every_budget_holds_the_pods_of_its_name_and_lets_one_go(applied: Cluster) -> None:
    wanted = await settled(applied, "groundline")
    budgets = await applied.objects("poddisruptionbudget", "groundline")
    assert {one["metadata"]["name"]: one["status"]["expectedPods"] for one in budgets} == wanted
    assert set((await evictions_allowed(applied, "groundline")).values()) == {1}


@namespaces
async def test_policies_select_pods_and_name_only_pods_that_exist(namespace: str, applied: Cluster) -> None:
    everything = await applied.objects("networkpolicy,pods", namespace)

    def pods(selector: Node) -> list[Node]:
        expressions = selector.get("matchExpressions", [])
        assert all(one["operator"] == "In" for one in expressions)
        return [
            pod
            for pod in of_kind(everything, "Pod", selector.get("matchLabels", {}))
            if all(pod["metadata"]["labels"].get(one["key"]) in one["values"] for one in expressions)
        ]

    telemetry = {"app.kubernetes.io/name": "otel-collector"}
    for policy in of_kind(everything, "NetworkPolicy"):
        assert pods(policy["spec"]["podSelector"]), policy["metadata"]["name"]
        rules = [*policy["spec"].get("ingress", []), *policy["spec"].get("egress", [])]
        for peer in (peer for rule in rules for peer in (*rule.get("from", []), *rule.get("to", []))):
            selector = peer.get("podSelector")
            if selector is None or "namespaceSelector" in peer:
                continue
            if namespace == "groundline-dev" and selector["matchLabels"] == telemetry:
                # dev has no collector; the bases allow the way to one.
                continue
            assert pods(selector), f"{policy['metadata']['name']}: {peer}"


async def test_replicas_are_spread_over_zones(applied: Cluster) -> None:
    await settled(applied, "groundline")
    described = await applied.objects("nodes", "")
    zone_of = {
        one["metadata"]["name"]: one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in described
    }
    zones: dict[str, set[str]] = {}
    for pod in await applied.objects("pods", "groundline", "app.kubernetes.io/part-of=groundline"):
        if pod["status"]["phase"] == "Running" and "nodeName" in pod["spec"]:
            zones.setdefault(name_of(pod), set()).add(zone_of[pod["spec"]["nodeName"]])
    # All of a trace comes to the one replica that decides on it.
    expected = dict.fromkeys(zones, 2) | {"otel-collector": 1}
    assert {name: len(found) for name, found in zones.items()} == expected


async def images(cluster: Cluster, name: str) -> set[str]:
    pods = await cluster.objects("pods", "groundline", f"app.kubernetes.io/name={name}")
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


async def test_a_service_is_rolled_out_and_back_with_all_replicas(applied: Cluster, tmp_path: Path) -> None:
    before = await settled(applied, "groundline")
    deploy = await asyncio.to_thread(shutil.copytree, tool.DEPLOY, tmp_path / "deploy")
    releases = deploy / "k8s/images/kustomization.yaml"
    old = f"newName: groundline/retriever, newTag: {VERSION}"
    text = await asyncio.to_thread(releases.read_text)
    assert old in text
    await asyncio.to_thread(releases.write_text, text.replace(old, old.replace(VERSION, NEXT_RELEASE)))
    retriever = "app.kubernetes.io/name=retriever"
    status = ("--namespace", "groundline", "rollout", "status", "deployment/retriever", "--timeout=180s")

    async with (
        watched(applied, "groundline", retriever) as replicas,
        watched(applied, "groundline", "app.kubernetes.io/name=coordinator") as others,
    ):
        overlay = deploy / "k8s/overlays/production"
        await applied.run("apply", "--kustomize", overlay, "--selector", retriever)
        await applied.run(*status)
        assert await settled(applied, "groundline") == before
        assert await images(applied, "retriever") == {f"groundline/retriever:{NEXT_RELEASE}"}
        await applied.run("--namespace", "groundline", "rollout", "undo", "deployment/retriever")
        await applied.run(*status)
        assert await settled(applied, "groundline") == before
    assert await images(applied, "retriever") == {f"groundline/retriever:{VERSION}"}
    assert min(replicas.seen) == before["retriever"]
    assert max(replicas.seen) > before["retriever"]
    assert set(others.seen) == {before["coordinator"]}


async def test_a_rollout_that_takes_replicas_away_first_would_be_noticed(applied: Cluster) -> None:
    """Checks the check above."""
    before = await settled(applied, "groundline")
    reranker = ("--namespace", "groundline", "deployment/reranker")
    hasty = '{"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}}'
    # The policies refuse such a rollout, until they are gone.
    policy = ("validatingadmissionpolicybinding", "groundline-rollouts")
    await applied.run("delete", *policy)
    for _ in range(60):
        if (await applied.kubectl("patch", *reranker, "--patch", hasty)).code == 0:
            break
        await asyncio.sleep(1)
    async with watched(applied, "groundline", "app.kubernetes.io/name=reranker") as replicas:
        await applied.run("rollout", "restart", *reranker)
        await applied.run("rollout", "status", *reranker, "--timeout=180s")
    assert min(replicas.seen) < before["reranker"]
    await applied.run("apply", "--kustomize", K8S / "overlays/production")
    await applied.run("apply", "--kustomize", K8S / "policies")
    await settled(applied, "groundline")


async def test_drains_of_two_zones_at_once_leave_what_the_budgets_ask_for(applied: Cluster) -> None:
    before = await settled(applied, "groundline")
    await settled(applied, "groundline-dev")
    drained = ("a1", "a2", "b1", "b2")
    try:
        # First, so that what leaves one of them is not placed on another, behind its drain's back.
        await applied.run("cordon", *drained)
        async with watched(applied, "groundline", "app.kubernetes.io/name=gateway") as gateways:
            async with watched(applied, "groundline", "app.kubernetes.io/name=ingestor-worker") as workers:
                await asyncio.gather(*(applied.run("drain", node, *DRAIN) for node in drained))
            assert await settled(applied, "groundline") == before
            left = await applied.objects("pods", "groundline", "app.kubernetes.io/part-of=groundline")
            running = (
                pod
                for pod in left
                if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
            )
            assert {pod["spec"]["nodeName"] for pod in running} == {"c1", "c2"}
            # dev has no budgets: its single replicas went, and came back elsewhere.
            await settled(applied, "groundline-dev")
        assert min(gateways.seen) >= before["gateway"] - 1
        assert min(workers.seen) >= before["ingestor-worker"] - 1
    finally:
        await applied.run("uncordon", *drained)


async def test_every_component_can_be_added_to_what_runs(applied: Cluster) -> None:
    components = sorted(path for path in (K8S / "components").iterdir() if path.name != "postgres")
    changed = ("pods", "network-policies", "metrics", "otel-collector")
    # Weaviate's bring what would stay: test_weaviate_on_a_cluster.py.
    elsewhere = ("synchronous-replication", "weaviate", "weaviate-backup")
    added = tuple(path for path in components if path.name not in (*changed, *elsewhere))
    documents = await asyncio.to_thread(tool.render, (K8S / "overlays/production", *added))
    await applied.run("apply", "--filename", "-", stdin=yaml.safe_dump_all(documents))
    try:
        await settled(applied, "groundline")
        pods = await applied.objects("pods", "groundline", "app.kubernetes.io/name=retriever")
        assert {one["name"] for pod in pods for one in pod["spec"]["initContainers"]} == {"mtls"}
        assert failures(await applied.objects("events", "groundline")) == []
    finally:
        await applied.run("apply", "--kustomize", K8S / "overlays/production")
        await settled(applied, "groundline")


async def test_deleting_the_services_leaves_the_database(applied: Cluster) -> None:
    await applied.run("delete", "--kustomize", K8S / "overlays/dev", "--wait=false")
    assert len(await applied.objects("clusters.postgresql.cnpg.io", "groundline-dev")) == 1
    secrets = {one["metadata"]["name"] for one in await applied.objects("secrets", "groundline-dev")}
    assert {"groundline-database-app", "groundline-gateway"} <= secrets
    await applied.run("apply", "--kustomize", K8S / "overlays/dev")
    await settled(applied, "groundline-dev")
