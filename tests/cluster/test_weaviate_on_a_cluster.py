"""deploy/k8s/components/weaviate, with backups, on a real control plane, added to what runs."""

import asyncio
from collections.abc import AsyncIterator

import manifests as tool
import pytest
import yaml
from groundline_tests.cluster.contents import DRAIN, K8S, WAIT, evictions_allowed, failures, settled, volumes
from groundline_tests.cluster.control_plane import Cluster, Ended, watched

NODES = 3
WEAVIATE = "app.kubernetes.io/name=weaviate"
BOTH = "app.kubernetes.io/name in (weaviate, weaviate-backup)"
KINDS = "statefulset,cronjob,service,serviceaccount,poddisruptionbudget,networkpolicy,configmap"


@pytest.fixture(scope="module")
async def manifests() -> str:
    documents = await asyncio.to_thread(
        tool.render, (K8S / "overlays/production", K8S / "components/weaviate-backup")
    )
    return yaml.safe_dump_all(documents)


@pytest.fixture(scope="module")
async def with_weaviate(applied: Cluster, manifests: str) -> AsyncIterator[Cluster]:
    """production with Weaviate; afterwards as it was."""
    await applied.run("apply", "--filename", "-", stdin=volumes(NODES))
    await applied.run("apply", "--filename", "-", stdin=manifests)
    await settled(applied, "groundline")
    yield applied
    await applied.run("apply", "--kustomize", K8S / "overlays/production")
    await applied.run("--namespace", "groundline", "delete", KINDS, "--selector", BOTH)


async def test_restricted_admits_three_nodes_and_their_volumes_are_bound(with_weaviate: Cluster) -> None:
    assert (await settled(with_weaviate, "groundline"))["weaviate"] == NODES
    claims = await with_weaviate.objects("persistentvolumeclaim", "groundline", WEAVIATE)
    assert [claim["status"]["phase"] for claim in claims] == ["Bound"] * NODES
    assert failures(await with_weaviate.objects("events", "groundline")) == []


async def test_restricted_admits_a_backup(with_weaviate: Cluster) -> None:
    create = ("create", "job", "trial", "--from=cronjob/weaviate-backup")
    await with_weaviate.run("--namespace", "groundline", *create)
    done = ("wait", "--for=condition=Complete", "job/trial", WAIT)
    await with_weaviate.run("--namespace", "groundline", *done)
    await with_weaviate.run("--namespace", "groundline", "delete", "job/trial")


async def test_what_is_applied_differs_in_nothing(with_weaviate: Cluster, manifests: str) -> None:
    assert await with_weaviate.kubectl("diff", "--filename", "-", stdin=manifests) == Ended(0, "", "")


async def test_each_node_is_on_a_machine_and_in_a_zone_of_its_own(with_weaviate: Cluster) -> None:
    machines = await with_weaviate.objects("nodes", "")
    zone_of = {
        one["metadata"]["name"]: one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in machines
    }
    pods = await with_weaviate.objects("pods", "groundline", WEAVIATE)
    assert {zone_of[pod["spec"]["nodeName"]] for pod in pods} == {"a", "b", "c"}


@pytest.mark.parametrize("service", ["weaviate", "weaviate-grpc", "weaviate-nodes"])
async def test_each_service_leads_to_the_nodes(service: str, with_weaviate: Cluster) -> None:
    slices = await with_weaviate.objects(
        "endpointslices", "groundline", f"kubernetes.io/service-name={service}"
    )
    pods = await with_weaviate.objects("pods", "groundline", WEAVIATE)
    led_to = {endpoint["targetRef"]["name"] for one in slices for endpoint in one["endpoints"]}
    assert led_to == {pod["metadata"]["name"] for pod in pods}
    assert all(one["ports"] for one in slices)


async def test_a_drain_of_two_machines_at_once_takes_one_node_at_a_time(with_weaviate: Cluster) -> None:
    assert (await evictions_allowed(with_weaviate, "groundline"))["weaviate"] == 1
    pods = await with_weaviate.objects("pods", "groundline", WEAVIATE)
    drained = sorted(pod["spec"]["nodeName"] for pod in pods)[:2]
    try:
        async with watched(with_weaviate, "groundline", WEAVIATE) as nodes:
            await asyncio.gather(*(with_weaviate.run("drain", machine, *DRAIN) for machine in drained))
            await settled(with_weaviate, "groundline")
        assert min(nodes.seen) == NODES - 1
    finally:
        await with_weaviate.run("uncordon", *drained)
