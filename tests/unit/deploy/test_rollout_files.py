"""The files of a rollout agree with each other, with the suite's manifests and with the command."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import manifests as tool
import pytest
import yaml
from click.testing import CliRunner
from groundline_cli.__main__ import cli

type Node = dict[str, Any]

K8S = tool.DEPLOY / "k8s"
ROLLOUT = K8S / "rollout"


def documents(name: str) -> list[Node]:
    return list(yaml.safe_load_all((ROLLOUT / f"{name}.yaml").read_text()))


def of_kind(kind: str, found: list[Node]) -> list[Node]:
    return [one for one in found if one["kind"] == kind]


@cache
def candidate() -> list[Node]:
    return tool.render((ROLLOUT / "candidate",))


@cache
def production() -> list[Node]:
    return tool.render((K8S / "overlays/production",))


@pytest.fixture
def job() -> Node:
    [cron_job] = of_kind("CronJob", documents("check"))
    spec: Node = cron_job["spec"]["jobTemplate"]["spec"]
    return spec


@pytest.fixture
def container(job: Node) -> Node:
    [container] = job["template"]["spec"]["containers"]
    return dict(container)


def test_the_schemas_of_kubernetes_take_check_and_candidate() -> None:
    assert list(tool.schema_problems([*documents("check"), *candidate()])) == []


def test_the_command_takes_the_arguments_of_the_check(container: Node, tmp_path: Path) -> None:
    arguments = [one.replace("/questions", str(tmp_path)) for one in container["args"]]
    environment = {one["name"]: one.get("value", "a-key-for-tests") for one in container["env"]}
    result = CliRunner().invoke(cli, arguments, env=environment)
    # It comes as far as to the gateway, whose name leads nowhere here.
    assert result.exit_code == 2
    assert '"verdict": "unknown"' in result.output


def test_only_a_check_that_cannot_tell_is_made_again(job: Node) -> None:
    [rule] = job["podFailurePolicy"]["rules"]
    assert rule == {
        "action": "FailJob",
        "onExitCodes": {"containerName": "server", "operator": "In", "values": [1]},
    }
    assert job["backoffLimit"] == 1


def test_the_key_comes_from_a_secret(container: Node) -> None:
    [key] = [one for one in container["env"] if one["name"] == "GROUNDLINE_API_KEY"]
    assert key == {
        "name": "GROUNDLINE_API_KEY",
        "valueFrom": {"secretKeyRef": {"name": "groundline-rollout-check", "key": "api-key"}},
    }


def test_an_analysis_makes_the_same_check(job: Node) -> None:
    [template] = documents("argo-rollouts")
    [metric] = template["spec"]["metrics"]
    values = {f"{{{{args.{one['name']}}}}}": one["value"] for one in template["spec"]["args"]}
    analysed = metric["provider"]["job"]["spec"]
    [container] = analysed["template"]["spec"]["containers"]
    container["args"] = [values.get(one, one) for one in container["args"]]
    # Argo Rollouts deletes its Jobs.
    assert analysed == {name: each for name, each in job.items() if name != "ttlSecondsAfterFinished"}


def test_check_and_route_lead_to_the_gateways_of_both_versions(container: Node) -> None:
    environment = {one["name"]: one.get("value") for one in container["env"]}
    beside = container["args"][container["args"].index("--beside") + 1]
    assert (environment["GROUNDLINE_GATEWAY_URL"], beside) == ("http://gateway-candidate", "http://gateway")
    services = {
        one["metadata"]["name"]: [port["port"] for port in one["spec"]["ports"]]
        for one in of_kind("Service", [*production(), *candidate()])
    }
    [route] = documents("gateway-api")
    [rule] = route["spec"]["rules"]
    for backend in rule["backendRefs"]:
        assert backend["port"] in services[backend["name"]]
    assert [one["weight"] for one in rule["backendRefs"]] == [100, 0]


def test_nothing_of_the_version_in_use_selects_a_candidate() -> None:
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in of_kind("Deployment", candidate())
    }
    assert set(pods) == {"retriever-candidate", "coordinator-candidate", "gateway-candidate"}
    for one in production():
        selector = selector_of(one)
        for labels in pods.values():
            assert not (selector and selector.items() <= labels.items()), one["metadata"]["name"]
    for name, labels in pods.items():
        [service] = [one for one in of_kind("Service", candidate()) if one["metadata"]["name"] == name]
        assert selector_of(service).items() <= labels.items()


def selector_of(document: Node) -> Mapping[str, str]:
    """Return the labels that a Service or Deployment selects by."""
    if document["kind"] not in ("Service", "Deployment"):
        return {}
    selector: Node = document["spec"]["selector"]
    labels: Mapping[str, str] = selector.get("matchLabels", selector)
    return labels


def test_candidates_call_each_other_and_otherwise_the_version_in_use() -> None:
    settings = {
        name: value
        for one in of_kind("ConfigMap", candidate())
        for name, value in one["data"].items()
        if name.endswith(("_TARGET", "_ADDRESS")) and not name.endswith("ADMIN_ADDRESS")
    }
    called = {name: value.removeprefix("dns:///").partition(":")[0] for name, value in settings.items()}
    assert {name for name, host in called.items() if host.endswith("-candidate")} == {
        "GROUNDLINE_COORDINATOR_RETRIEVER_TARGET",
        "GROUNDLINE_GATEWAY_RETRIEVER_ADDRESS",
        "GROUNDLINE_GATEWAY_COORDINATOR_ADDRESS",
    }
    services = {one["metadata"]["name"] for one in of_kind("Service", [*production(), *candidate()])}
    assert set(called.values()) <= services
