"""One control plane for the session, and both overlays on it, applied as deploy/README.md says."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from groundline_tests.cluster.contents import (
    K8S,
    OVERLAYS,
    SECRETS,
    WAIT,
    empty_namespaces,
    instances,
    nodes,
    settled,
)
from groundline_tests.cluster.control_plane import Cluster, control_plane, write_stages
from groundline_tests.cluster.programs import programs


@pytest.fixture(scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Six ready nodes and the kinds of the operators that the manifests need; nothing of ours."""
    built = await asyncio.to_thread(programs)
    folder = tmp_path_factory.mktemp("cluster")
    await asyncio.to_thread(write_stages, built, folder)
    async with control_plane(built, folder) as running:
        await running.run("apply", "--server-side", "--filename", built / "definitions")
        await running.run("wait", "--for=condition=Established", "crd", "--all", WAIT)
        await running.run("apply", "--filename", "-", stdin=nodes())
        await running.run("wait", "--for=condition=Ready", "node", "--all", WAIT)
        await running.run("apply", "--filename", "-", stdin=empty_namespaces())
        await running.run("apply", "--kustomize", K8S / "policies")
        yield running


@pytest.fixture(scope="session")
async def applied(cluster: Cluster) -> Cluster:
    """Both overlays, step by step as deploy/README.md says."""
    for overlay, namespace in OVERLAYS.items():
        here = K8S / "overlays" / overlay

        await cluster.run("apply", "--kustomize", here / "database")
        await cluster.run("apply", "--filename", "-", stdin=instances(namespace, 3))
        for secret, literal in SECRETS.items():
            created = ("create", "secret", "generic", secret, f"--from-literal={literal}")
            await cluster.run("--namespace", namespace, *created)
        await cluster.run("apply", "--kustomize", here / "migrations")
        done = ("wait", "--for=condition=Complete", "job/migrations", WAIT)
        await cluster.run("--namespace", namespace, *done)
        await cluster.run("apply", "--kustomize", here)
        await settled(cluster, namespace)
    return cluster
