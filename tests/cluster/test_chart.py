"""deploy/helm is deploy/k8s: what the chart renders to, object by object, and what it refuses."""

import copy
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import helm_chart
import manifests as tool
import pytest
import yaml
from chart_parts.parameters import value_name
from groundline_tests.cluster.contents import K8S
from groundline_tests.cluster.control_plane import Node
from groundline_tests.cluster.helm import helm, templated
from helm_chart import CHART

SWITCHED_ON = helm_chart.switched_on("production")
"""Components of production and of its database."""

ADDED = [name for name in helm_chart.components() if name not in SWITCHED_ON]
REMOVED = [name for name in SWITCHED_ON if name != "postgres"]
HASHED = re.compile(r"-[0-9a-z]{10}$")
WITHOUT_POSTGRES = (
    *("--set", "components.postgres=false", "--set", "components.standbyReads=false"),
    *("--set", "database.cidr=10.1.2.3/32", "--set", "database.port=6432"),
)


def switched(names: Iterable[str], state: bool) -> list[str]:
    shown = str(state).lower()
    return [f"--set=components.{value_name(name)}={shown}" for name in names]


def production(added: Sequence[str] = (), removed: Sequence[str] = ()) -> list[Node]:
    """Return the objects of kustomize: production, the database and the migrations in one."""
    overlay, bases = K8S / "overlays/production", K8S / "base"
    if not removed:
        services: list[Path] = [overlay]
    else:
        services = [path for path in sorted(bases.iterdir()) if path.name != "migrations"]
        added = [name for name in SWITCHED_ON if name not in ("postgres", *removed)]
    database = () if "postgres" in removed else (overlay / "database",)
    components = (K8S / "components" / name for name in added)
    return tool.render((*database, overlay / "migrations", *services, *components))


def comparable(documents: Iterable[Node]) -> dict[tuple[str, str], Node]:
    """Return objects by kind and name without what may differ.

    That is: the namespace, which the release names; the hash in a ConfigMap's name, by which a change of it
    rolls pods out, and for which the chart has a checksum; the name of the Job, which is another for other
    migrations; who manages an object, and whether Helm keeps it; the order of named things.
    """
    found = {}
    for document in copy.deepcopy(list(documents)):
        if document["kind"] == "Namespace":
            continue
        metadata = document["metadata"]
        metadata.pop("namespace", None)
        name = metadata["name"]
        match document["kind"]:
            case "ConfigMap":
                name = HASHED.sub("", name)
            case "Job":
                name = name.partition("-")[0]
        metadata["name"] = name
        assert (document["kind"], name) not in found, "an object is there twice"
        found[document["kind"], name] = plain(document)
    return found


def plain(tree: Any) -> Any:
    match tree:
        case dict():
            return {key: plain(value) for key, value in tree.items() if not is_of_installer(key, value)}
        case list():
            items = [plain(item) for item in tree]
            named = all(isinstance(item, dict) and "name" in item for item in items)
            return sorted(items, key=lambda item: str(item["name"])) if named else items
    return tree


def is_of_installer(key: str, value: Any) -> bool:
    if key == "annotations":
        return all(name.startswith(("checksum/", "helm.sh/")) for name in value)
    return key == "app.kubernetes.io/managed-by"


def without_hashes(documents: dict[tuple[str, str], Node]) -> dict[tuple[str, str], Node]:
    """Return objects that name ConfigMaps as the chart does."""
    names = {name for kind, name in documents if kind == "ConfigMap"}

    def unhashed(tree: Any) -> Any:
        match tree:
            case dict():
                return {key: unhashed(value) for key, value in tree.items()}
            case list():
                return [unhashed(item) for item in tree]
            case str() if HASHED.sub("", tree) in names:
                return HASHED.sub("", tree)
        return tree

    return {key: unhashed(document) for key, document in documents.items()}


def assert_same(chart: Iterable[Node], kustomize: Iterable[Node]) -> None:
    ours, theirs = comparable(chart), without_hashes(comparable(kustomize))
    assert ours.keys() == theirs.keys()
    for key, document in theirs.items():
        assert ours[key] == document


def test_defaults_are_the_production_overlay(tmp_path: Path) -> None:
    assert_same(templated(tmp_path), production())


def test_the_values_of_dev_are_the_dev_overlay(tmp_path: Path) -> None:
    applied = tool.whole(K8S, "dev")
    documents = [document for directories in applied for document in tool.render(directories)]
    assert_same(templated(tmp_path, "--values", CHART / "values-dev.yaml"), documents)


@pytest.mark.parametrize("component", ADDED)
def test_a_component_that_is_added_is_that_of_kustomize(component: str, tmp_path: Path) -> None:
    assert_same(templated(tmp_path, *switched([component], True)), production([component]))


@pytest.mark.parametrize("component", REMOVED)
def test_a_component_that_is_left_out_is_left_out_whole(component: str, tmp_path: Path) -> None:
    assert_same(templated(tmp_path, *switched([component], False)), production(removed=[component]))


def test_all_components_together_are_those_of_kustomize(tmp_path: Path) -> None:
    added = [name for name in ADDED if name != "weaviate"]
    assert_same(templated(tmp_path, *switched(added, True)), production(added))


def test_a_database_of_ones_own_takes_its_place(tmp_path: Path) -> None:
    kustomize = production(removed=["postgres", "standby-reads"])
    rules = [rule for one in kustomize for rule in egress(one) if "cnpg.io/cluster" in str(rule)]
    assert len(rules) == len(
        ("gateway", "coordinator", "retriever", "ingestor", "ingestor-worker", "migrations")
    )
    for rule in rules:
        rule["to"] = [{"ipBlock": {"cidr": "10.1.2.3/32"}}]
        rule["ports"] = [{"protocol": "TCP", "port": 6432}]
    assert_same(templated(tmp_path, *WITHOUT_POSTGRES), kustomize)


def egress(document: Node) -> list[Node]:
    if document["kind"] != "NetworkPolicy":
        return []
    rules: list[Node] = document["spec"].get("egress", [])
    return rules


REFUSED = {
    "additional properties 'replica' not allowed": ["--set=services.retriever.replica=3"],
    "additional properties 'tag' not allowed": ["--set=services.ingestorWorker.tag=0.2.0"],
    "additional properties 'metric' not allowed": ["--set=components.metric=true"],
    "got number, want string": ["--set=services.retriever.settings.GROUNDLINE_POOL_MAX_SIZE=5"],
    "services.retriever.replicas: min is larger than max": ["--set=services.retriever.replicas.min=11"],
    "name the addresses of your database in database.cidr": [*switched(["postgres", "standby-reads"], False)],
    "components.standbyReads reads from standbys": [
        *switched(["postgres"], False),
        "--set=database.cidr=10.1.2.3/32",
    ],
    "or database.spec.instances to 2 or more": ["--set=database.spec.instances=1"],
    "components.prometheusOperator reads what components.metrics serves": [
        *switched(["metrics"], False),
        *switched(["prometheus-operator"], True),
    ],
}


@pytest.mark.parametrize(("message", "options"), REFUSED.items(), ids=REFUSED)
def test_values_that_cannot_be_meant_are_refused(message: str, options: list[str], tmp_path: Path) -> None:
    done = helm("template", "groundline", CHART, *options, home=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("options", [[], ["--values", f"{CHART}/values-dev.yaml"]], ids=["production", "dev"])
def test_helm_has_nothing_to_say_against_the_chart(options: list[str], tmp_path: Path) -> None:
    done = helm("lint", "--strict", CHART, *options, home=tmp_path)
    assert (done.returncode, "[WARNING]" in done.stdout, "[ERROR]" in done.stdout) == (0, False, False)


def differing(home: Path, *options: str) -> set[tuple[str, str]]:
    """Return which objects of the suite differ by these options, those that are new or gone included."""
    [before, after] = [
        {(one["kind"], one["metadata"]["name"]): one for one in templated(home, *given)}
        for given in ((), options)
    ]
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def test_a_release_of_one_service_changes_its_deployment_alone(tmp_path: Path) -> None:
    changed = differing(tmp_path, "--set=services.retriever.tag=0.2.0")
    assert changed == {("Deployment", "retriever")}


def test_a_release_of_the_ingestor_takes_its_workers_along_and_migrates(tmp_path: Path) -> None:
    changed = differing(tmp_path, "--set=services.ingestor.tag=0.2.0")
    deployments = {("Deployment", "ingestor"), ("Deployment", "ingestor-worker")}
    # One job is gone, and another is there: a finished one cannot change.
    assert changed - deployments == {key for key in changed if key[0] == "Job"}
    assert len(changed) == len(deployments) + 2


def test_a_changed_setting_changes_its_configuration_and_so_its_pods(tmp_path: Path) -> None:
    changed = differing(tmp_path, "--set-string=services.retriever.settings.GROUNDLINE_POOL_MAX_SIZE=5")
    assert changed == {("ConfigMap", "retriever"), ("Deployment", "retriever")}


def test_operators_choose_registry_release_secrets_and_variables(tmp_path: Path) -> None:
    documents = templated(
        tmp_path,
        "--set=image.prefix=registry.example/team/groundline/,image.tag=0.3.0",
        "--set=image.pullSecrets[0].name=registry",
        "--set=services.generator.env[0].name=GROUNDLINE_GENERATOR_PROVIDER_API_KEY",
        "--set=services.generator.env[0].valueFrom.secretKeyRef.name=models",
        "--set=services.generator.env[0].valueFrom.secretKeyRef.key=key",
    )
    shown = [line for one in documents for line in repr(one).split("'") if "groundline/" in line]
    assert {line.rpartition("groundline/")[0] for line in shown} == {"registry.example/team/"}
    assert {line.rpartition(":")[2] for line in shown if "postgres" not in line} == {"0.3.0"}
    accounts = [one for one in documents if one["kind"] == "ServiceAccount"]
    assert all(one["imagePullSecrets"] == [{"name": "registry"}] for one in accounts)
    [generator] = [
        one for one in documents if (one["kind"], one["metadata"]["name"]) == ("Deployment", "generator")
    ]
    [server] = generator["spec"]["template"]["spec"]["containers"]
    [key] = [one for one in server["env"] if one["name"] == "GROUNDLINE_GENERATOR_PROVIDER_API_KEY"]
    assert key["valueFrom"]["secretKeyRef"] == {"name": "models", "key": "key"}


def test_the_pod_of_helm_test_runs_the_command_that_is_tested(tmp_path: Path) -> None:
    shown = helm("template", CHART, "--show-only", "templates/tests/gateway.yaml", home=tmp_path).stdout
    [pod] = [one for one in yaml.safe_load_all(shown) if one["kind"] == "Pod"]
    [container] = pod["spec"]["containers"]
    [program] = container["args"]
    assert program.strip() == (CHART / "files/healthy.py").read_text().strip()
    assert {entry["name"] for entry in container["env"]} == {"GATEWAY", "ATTEMPTS"}


def test_an_uninstall_would_keep_the_database_and_nothing_else(tmp_path: Path) -> None:
    kept = {
        (one["kind"], one["metadata"]["name"])
        for one in templated(tmp_path)
        if one["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    }
    database = tool.render((K8S / "overlays/production/database",))
    assert kept == {(one["kind"], one["metadata"]["name"]) for one in database if one["kind"] != "Namespace"}


def test_migrations_can_be_left_out(tmp_path: Path) -> None:
    assert {kind for kind, _ in differing(tmp_path, "--set=migrations=false")} == {
        *("Job", "ServiceAccount", "ConfigMap", "NetworkPolicy")
    }
