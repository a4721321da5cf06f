"""deploy/helm on a real control plane: install, upgrade from the version before, rollback, uninstall."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from groundline_tests.cluster.contents import K8S, SECRETS, WAIT, failures, instances, settled
from groundline_tests.cluster.control_plane import Cluster, Node, watched
from groundline_tests.cluster.helm import RELEASE, helm
from helm_chart import CHART
from project import VERSION

NAMESPACE = "groundline-chart"
BEFORE = "0.0.9"
"""Version that is installed first."""

KEPT = ("cluster.postgresql.cnpg.io", "database.postgresql.cnpg.io", "imagecatalog.postgresql.cnpg.io")
KINDS = (
    "deployment,service,configmap,serviceaccount,horizontalpodautoscaler,poddisruptionbudget,networkpolicy"
)


@dataclass(frozen=True, slots=True)
class Installation:
    """A release of the chart in a namespace of its own."""

    cluster: Cluster
    folder: Path

    async def tried(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        where = ("--kubeconfig", self.cluster.kubeconfig, "--namespace", NAMESPACE)
        return await asyncio.to_thread(helm, *arguments, *where, home=self.folder)

    async def helm(self, *arguments: str | Path) -> str:
        """Run Helm, and expect success."""
        done = await self.tried(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def upgrade(self, chart: Path, *options: str) -> None:
        # Without options, Helm would go on with those of the last upgrade.
        await self.helm("upgrade", RELEASE, chart, "--reset-values", *options)
        await settled(self.cluster, NAMESPACE)

    async def objects(self, kinds: str) -> dict[tuple[str, str], Node]:
        found = await self.cluster.objects(kinds, NAMESPACE)
        return {(one["kind"], one["metadata"]["name"]): one for one in found}

    async def images(self) -> dict[str, str]:
        """Return the image of each Deployment's process."""
        deployments = await self.objects("deployment")
        return {
            name: one["spec"]["template"]["spec"]["containers"][0]["image"]
            for (_, name), one in deployments.items()
        }

    async def pods(self) -> dict[str, str]:
        """Return the name of the workload of each pod that runs, by the pod's."""
        found = await self.cluster.objects("pods", NAMESPACE, "app.kubernetes.io/part-of=groundline")
        return {
            one["metadata"]["name"]: one["metadata"]["labels"]["app.kubernetes.io/name"]
            for one in found
            if one["status"]["phase"] == "Running" and "deletionTimestamp" not in one["metadata"]
        }

    async def replaced(self, before: dict[str, str]) -> set[str]:
        """Return the workloads with other pods than before."""
        now = await self.pods()
        return {name for pod, name in before.items() if pod not in now}


@pytest.fixture(scope="module")
async def installation(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    """The chart as the version before, in an empty namespace with production's labels."""
    folder = tmp_path_factory.mktemp("helm")
    namespace = yaml.safe_load((K8S / "overlays/production/database/namespace.yaml").read_text())
    namespace["metadata"]["name"] = NAMESPACE
    await cluster.run("apply", "--filename", "-", stdin=yaml.safe_dump(namespace))
    await cluster.run("apply", "--filename", "-", stdin=instances(NAMESPACE, 3))
    for secret, literal in SECRETS.items():
        created = ("create", "secret", "generic", secret, f"--from-literal={literal}")
        await cluster.run("--namespace", NAMESPACE, *created)
    running = Installation(cluster, folder)
    packed = ("--version", BEFORE, "--app-version", BEFORE, "--destination", folder)
    await running.helm("package", CHART, *packed)
    await running.helm("install", RELEASE, folder / f"groundline-{BEFORE}.tgz", "--wait", WAIT)
    await settled(cluster, NAMESPACE)
    yield running
    await cluster.run("delete", "namespace", NAMESPACE, "--wait=false")


async def migrated(installation: Installation) -> str:
    """Wait until the migrations are done, and return the image that did them last."""
    await installation.cluster.run(
        *("--namespace", NAMESPACE, "wait", "--for=condition=Complete", "job"),
        *("--selector", "app.kubernetes.io/name=migrations", WAIT),
    )
    [job] = (await installation.objects("job")).values()
    image: str = job["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


async def test_a_field_that_the_operator_does_not_know_is_refused(installation: Installation) -> None:
    chart = installation.folder / f"groundline-{BEFORE}.tgz"
    done = await installation.tried("upgrade", RELEASE, chart, "--set=database.spec.instanzes=3")
    assert done.returncode == 1
    assert ".spec.instanzes" in done.stderr


async def test_an_install_makes_every_service_available_and_migrates(installation: Installation) -> None:
    await settled(installation.cluster, NAMESPACE)
    images = await installation.images()
    assert {one for one in images.values() if one.startswith("groundline/")} == {
        f"groundline/{name.removesuffix('-worker')}:{BEFORE}" for name in images if name != "otel-collector"
    }
    assert await migrated(installation) == f"groundline/coordinator:{BEFORE}"
    assert failures(await installation.cluster.objects("events", NAMESPACE)) == []


async def test_a_release_of_one_service_rolls_that_service_alone(installation: Installation) -> None:
    before = await installation.pods()
    chart = installation.folder / f"groundline-{BEFORE}.tgz"
    await installation.upgrade(chart, "--set=services.retriever.tag=0.0.10")
    assert await installation.replaced(before) == {"retriever"}
    await installation.upgrade(chart)


async def test_a_changed_setting_rolls_its_service_alone(installation: Installation) -> None:
    before = await installation.pods()
    chart = installation.folder / f"groundline-{BEFORE}.tgz"
    await installation.upgrade(chart, "--set-string=services.bridge.settings.GROUNDLINE_DRAIN_SECONDS=4")
    assert await installation.replaced(before) == {"bridge"}
    await installation.upgrade(chart)


async def test_an_upgrade_from_the_version_before_recreates_nothing_and_a_rollback_leads_back(
    installation: Installation,
) -> None:
    kinds = f"{KINDS},{','.join(KEPT)}"
    before = await installation.objects(kinds)
    wanted = await settled(installation.cluster, NAMESPACE)
    async with watched(installation.cluster, NAMESPACE, "app.kubernetes.io/name=gateway") as gateways:
        await installation.upgrade(CHART)
    after = await installation.objects(kinds)
    assert {key: one["metadata"]["uid"] for key, one in after.items()} == {
        key: one["metadata"]["uid"] for key, one in before.items()
    }
    assert min(gateways.seen) >= wanted["gateway"]
    assert f"groundline/gateway:{VERSION}" in (await installation.images()).values()
    assert await migrated(installation) == f"groundline/coordinator:{VERSION}"

    await installation.helm("rollback", RELEASE)
    await settled(installation.cluster, NAMESPACE)
    assert f"groundline/gateway:{BEFORE}" in (await installation.images()).values()


async def test_the_pod_of_helm_test_is_admitted_where_pods_are_restricted(installation: Installation) -> None:
    shown = await installation.helm("template", RELEASE, CHART, "--show-only", "templates/tests/gateway.yaml")
    strict = ("--server-side", "--dry-run=server", "--validate=strict", "--filename", "-")
    ended = await installation.cluster.kubectl("--namespace", NAMESPACE, "apply", *strict, stdin=shown)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("serverside-applied (server dry run)") == len(("pod", "networkpolicy"))


async def test_an_uninstall_leaves_database_and_secrets_to_the_next_one(
    installation: Installation,
) -> None:
    before = await installation.objects(",".join(KEPT))
    await installation.helm("uninstall", RELEASE, "--wait")
    assert await installation.objects(f"deployment,{','.join(KEPT)}") == before
    secrets = {one["metadata"]["name"] for one in await installation.cluster.objects("secret", NAMESPACE)}
    assert SECRETS.keys() <= secrets

    await installation.helm("install", RELEASE, CHART)
    await settled(installation.cluster, NAMESPACE)
    after = await installation.objects(",".join(KEPT))
    assert {one["metadata"]["uid"] for one in after.values()} == {
        one["metadata"]["uid"] for one in before.values()
    }
