"""deploy/k8s/rollout on a real control plane with the kinds of the Gateway API, Argo Rollouts and Flagger."""

import asyncio
from pathlib import Path

import manifests as tool
import pytest
import yaml
from groundline_tests.cluster.contents import EMPTY, K8S
from groundline_tests.cluster.control_plane import Cluster, Node

ROLLOUT = K8S / "rollout"
STRICT = ("--server-side", "--dry-run=server", "--validate=strict")


def documents(path: Path) -> list[Node]:
    return list(yaml.safe_load_all(path.read_text()))


async def taken(cluster: Cluster, found: list[Node]) -> None:
    """Have all objects taken in an empty namespace, without a warning such as of privileges."""
    for document in found:
        document["metadata"]["namespace"] = EMPTY["production"]
    ended = await cluster.kubectl("apply", *STRICT, "--filename", "-", stdin=yaml.safe_dump_all(found))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("serverside-applied (server dry run)") == len(found)


@pytest.mark.parametrize("path", sorted(ROLLOUT.glob("*.yaml")), ids=lambda path: path.stem)
async def test_strict_validation_takes_every_file(cluster: Cluster, path: Path) -> None:
    await taken(cluster, documents(path))


async def test_an_unknown_field_of_an_operator_s_kind_is_refused(cluster: Cluster) -> None:
    [template] = documents(ROLLOUT / "flagger.yaml")
    template["metadata"]["namespace"] = EMPTY["production"]
    template["spec"]["provider"]["adress"] = "http://prometheus"
    ended = await cluster.kubectl("apply", *STRICT, "--filename", "-", stdin=yaml.safe_dump(template))
    assert ended.code != 0
    assert "adress" in ended.err


async def test_the_job_of_an_analysis_is_taken(cluster: Cluster) -> None:
    """The kind of Argo Rollouts leaves what a Job holds to whoever creates it."""
    [template] = documents(ROLLOUT / "argo-rollouts.yaml")
    [metric] = template["spec"]["metrics"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "analysis"}}
    await taken(cluster, [{**job, "spec": metric["provider"]["job"]["spec"]}])


async def test_a_candidate_is_taken(cluster: Cluster) -> None:
    await taken(cluster, await asyncio.to_thread(tool.render, (ROLLOUT / "candidate",)))
