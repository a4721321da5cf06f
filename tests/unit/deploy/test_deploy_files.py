"""Compose and build files, and every list of the services, agree with the code and with each other."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from groundline_benchmarks.measuring.suite import SERVICES as MEASURED
from groundline_cli.stack import suite
from groundline_gateway.envoy.clusters import BRIDGE
from groundline_gateway.envoy.clusters import SERVICES as CALLED
from groundline_lexical.detection import BACKENDS
from groundline_runtime.metrics.common import STREAMS_UNDER_WAY
from groundline_tests.weaviate.nodes import ENGINE, VERSION, engine_environment
from manifest_rules import GRPC_PORT, KEYS, PROCESSES, addresses, read, weaviate
from project import ROOT, SERVICES

type Node = dict[str, Any]

DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
WITH_WEAVIATE = DEPLOY / "compose.weaviate.yaml"
WITH_CANARY = DEPLOY / "compose.canary.yaml"
CANDIDATE = "-candidate"
POSTGRES = DEPLOY / "images/postgres/Dockerfile"
BUILD_FILES = [*(ROOT / name / "Dockerfile" for name in ("services", "gateway", "cli")), POSTGRES]
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
NOT_BY_DIGEST = ("tensorchord/vchord_bm25-scratch", "cr.weaviate.io/semitechnologies/weaviate:")
"""Files for the variant vchord_bm25 of the database's image; a server whose registry was out of reach."""


def composed(*paths: Path) -> dict[str, Node]:
    """Return the services of compose files that are combined."""
    services: dict[str, Node] = {}
    for path in paths:
        for name, given in yaml.safe_load(path.read_text())["services"].items():
            service = services.setdefault(name, {})
            service |= given | {"environment": service.get("environment", {}) | given.get("environment", {})}
    return services


def sample(value: str) -> str:
    """Return the value with the operator's variables replaced by their default, or by something of their
    form."""

    def replace(match: re.Match[str]) -> str:
        return match[2] if match[2] is not None else KEYS if match[1].endswith("API_KEYS") else "example"

    return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", replace, value)


def problems(services: Mapping[str, Node]) -> Iterator[str]:
    programs = {name: re.sub("-(candidate|current)$", "", name) for name in services}
    for name, program in sorted(programs.items()):
        if program not in PROCESSES:
            continue
        values = {key: sample(str(value)) for key, value in services[name]["environment"].items()}
        settings, wrong = read(PROCESSES[program], values)
        yield from wrong
        called = [
            (one, given.removeprefix("dns:///")) for _, one, given in addresses(PROCESSES[program], values)
        ]
        called += [("weaviate", f"{host}:{port}") for host, port in weaviate(settings)]
        for service, given in called:
            host = given.partition(":")[0]
            known = (f"{service}:{GRPC_PORT}", f"{service}{CANDIDATE}:{GRPC_PORT}", "weaviate:8080")
            if given not in known or host not in services:
                yield f"{name} is sent to {given}"


@pytest.mark.parametrize("paths", [(COMPOSE,), (COMPOSE, WITH_WEAVIATE), (COMPOSE, WITH_CANARY)])
def test_compose_gives_every_process_its_settings_and_the_address_of_others(paths: tuple[Path, ...]) -> None:
    assert list(problems(composed(*paths))) == []


@pytest.mark.parametrize(
    ("service", "variable", "value", "expected"),
    [
        ("retriever", "GROUNDLINE_LOG_STYLE", "json", "GROUNDLINE_LOG_STYLE is not a setting"),
        ("retriever", "GROUNDLINE_PORT", "many", "_PORT"),
        ("coordinator", "GROUNDLINE_COORDINATOR_GENERATOR_TARGET", "generator:9", "is sent to generator:9"),
        ("retriever", "GROUNDLINE_WEAVIATE__HTTP_URL", "http://weaviate:80", "is sent to weaviate:80"),
    ],
)
def test_an_unsound_environment_is_reported(service: str, variable: str, value: str, expected: str) -> None:
    services = composed(COMPOSE, WITH_WEAVIATE)
    services[service]["environment"][variable] = value
    assert any(expected in problem for problem in problems(services))


@pytest.mark.parametrize(("name", "service"), list(composed(COMPOSE, WITH_WEAVIATE, WITH_CANARY).items()))
def test_a_composed_service_is_confined_and_known_by_release_and_digest(name: str, service: Node) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(service[limit] for limit in ("mem_limit", "cpus", "pids_limit"))
    if "build" not in service:
        assert re.search(r":[\w.-]*\d[\w.-]*(@|$)", sample(service["image"])), name
        own = service["image"].startswith(("groundline/", *NOT_BY_DIGEST))
        assert own or DIGEST.search(service["image"]), name


def test_a_composed_candidate_is_what_the_public_gateway_shares_with() -> None:
    services = composed(COMPOSE, WITH_CANARY)
    shared = json.loads(services["gateway"]["environment"]["GROUNDLINE_GATEWAY_CANARY_ADDRESSES"])
    alone = services["gateway-candidate"]["environment"]
    current = services["gateway-current"]["environment"]
    for name, address in shared.items():
        assert address == alone[f"GROUNDLINE_GATEWAY_{name.upper()}_ADDRESS"] == f"{name}{CANDIDATE}:50051"
    assert not any(CANDIDATE in value for value in current.values())
    for gateway in ("gateway-candidate", "gateway-current"):
        assert all(port.startswith("127.0.0.1:") for port in services[gateway]["ports"])


def test_the_composed_node_of_weaviate_is_the_one_that_is_tested() -> None:
    node = composed(WITH_WEAVIATE)["weaviate"]
    assert node["image"].endswith(f":{VERSION.removeprefix('v')}")
    assert [(DEPLOY / path).resolve() for path in node["env_file"]] == [ENGINE]
    assert not node["environment"].keys() & engine_environment().keys()


@pytest.mark.parametrize("build_file", BUILD_FILES, ids=lambda path: path.parent.name)
def test_base_images_are_known_by_digest(build_file: Path) -> None:
    text = build_file.read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE))
    images = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) - stages
    named = [re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], image) for image in images]
    assert [one for one in named if not one.startswith(NOT_BY_DIGEST) and not DIGEST.search(one)] == []


def databases() -> Iterator[tuple[str, list[str], list[str] | None, list[Node]]]:
    """Return each image of the database, its preloaded libraries, what a superuser creates, and the
    extensions that the operator keeps at a version."""
    described = (DEPLOY / "k8s/components/postgres/cluster.yaml").read_text()
    [catalog, cluster, kept] = yaml.safe_load_all(described)
    created = cluster["spec"]["bootstrap"]["initdb"]["postInitApplicationSQL"]
    [image] = catalog["spec"]["images"]
    assert cluster["spec"]["imageCatalogRef"]["major"] == image["major"]
    assert f":{image['major']}." in image["image"]
    extensions: list[Node] = kept["spec"]["extensions"]
    yield image["image"], cluster["spec"]["postgresql"]["shared_preload_libraries"], created, extensions
    patched = yaml.safe_load((DEPLOY / "k8s/components/vchord-bm25/kustomization.yaml").read_text())[
        "patches"
    ]
    [[image], [preloaded, created], [engine]] = [yaml.safe_load(one["patch"]) for one in patched]
    yield image["value"], preloaded["value"], created["value"], [extensions[0], engine["value"]]
    database = composed(COMPOSE)["database"]
    [loaded] = [one.split("=", 1)[1] for one in database["command"] if "shared_preload" in one]
    yield database["image"], loaded.split(","), None, []


@pytest.mark.parametrize(("image", "preloaded", "created", "kept"), list(databases()))
def test_the_databases_image_is_built_loaded_and_accepted(
    image: str, preloaded: list[str], created: list[str] | None, kept: list[Node]
) -> None:
    named = re.fullmatch(r"groundline/postgres:([\d.]+)-pgvector-([\d.]+)-(\w+)-([\d.]+)", image)
    assert named
    postgres, vectors, engine, version = named.groups()
    built = dict(re.findall(r"^ARG (\w+)_VERSION=(\S+)$", POSTGRES.read_text(), re.MULTILINE))
    assert (built["POSTGRES"], built["PGVECTOR"], built[engine.upper()]) == (postgres, vectors, version)
    BACKENDS[engine].of_version(version)  # raises for one that the services refuse
    # pg_textsearch does not work unless it is loaded when the server starts.
    assert preloaded == (["pg_textsearch"] if engine == "pg_textsearch" else [])
    if created is not None:
        extensions = {text.split()[2] for text in created if text.startswith("CREATE EXTENSION ")}
        assert extensions == {"vector", engine}
        versions = {one["name"]: one["version"] for one in kept}
        assert versions == {"vector": built["PGVECTOR"], engine: version}


def test_every_service_has_an_image_manifests_and_a_place_in_compose() -> None:
    images = yaml.safe_load((DEPLOY / "k8s/images/kustomization.yaml").read_text())["images"]
    assert {one["name"] for one in images} == {f"groundline/{name}" for name in SERVICES}
    bases = {path.name for path in (DEPLOY / "k8s/base").iterdir()}
    assert bases == {*SERVICES, "migrations"}
    assert composed(COMPOSE).keys() >= set(SERVICES)
    folders = {path.parent.name for path in ROOT.glob("services/*/pyproject.toml")}
    assert folders == set(SERVICES) - {"gateway"}
    assert {*CALLED, BRIDGE} == set(SERVICES) - {"collector", "gateway"}
    started = {service.name for service in suite.SERVICES}
    assert started == set(MEASURED) == set(SERVICES) - {"gateway"}


def test_the_release_of_an_image_stands_in_one_place() -> None:
    named = re.compile(r"(?:newTag|image: \S*groundline/(?!postgres)[a-z]+:)")
    manifests = (DEPLOY / "k8s").rglob("*.yaml")
    # The command is not a service, and a candidate is of another release than the service in use.
    others = ("rollout/check.yaml", "rollout/argo-rollouts.yaml", "rollout/candidate/kustomization.yaml")
    places = [path for path in manifests if named.search(path.read_text())]
    services = [path for path in places if not path.as_posix().endswith(others)]
    assert [path.parent.name for path in services] == ["images"]


def test_what_works_in_the_background_has_less_of_a_full_machine_than_what_answers() -> None:
    requested = {}
    for file in (DEPLOY / "k8s/base").glob("*/*.yaml"):
        for document in yaml.safe_load_all(file.read_text()):
            if "spec" in document and document["kind"] == "Deployment" and "selector" in document["spec"]:
                [container] = document["spec"]["template"]["spec"]["containers"]
                request = container["resources"]["requests"]["cpu"]
                assert request.endswith("m")
                requested[document["metadata"]["name"]] = int(request.removesuffix("m"))
    background = {"ingestor-worker", "collector"}
    answering = requested.keys() - background
    assert requested.keys() == {*SERVICES, "ingestor-worker"}
    assert max(requested[one] for one in background) < min(requested[one] for one in answering)
    shares = {name: one["cpu_shares"] for name, one in composed(COMPOSE).items() if "cpu_shares" in one}
    assert shares.keys() == {"ingestor", "collector"}
    assert all(one < 1024 for one in shares.values())  # Docker's default


def test_autoscalers_count_only_metrics_that_there_are() -> None:
    [patch] = yaml.safe_load((DEPLOY / "k8s/components/stream-autoscaling/streams.yaml").read_text())
    metric = patch["value"]["pods"]["metric"]
    assert metric == {"name": STREAMS_UNDER_WAY.prometheus_name}
