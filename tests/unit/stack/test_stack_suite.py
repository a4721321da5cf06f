"""Settings with which each service and the gateway are started."""

import hashlib
import json
import stat
from pathlib import Path

import pytest
from groundline_cli.stack.errors import StackError
from groundline_cli.stack.suite import SERVICES, gateway_command, services_environment

ADDRESSES = {service.name: f"127.0.0.1:{5000 + number}" for number, service in enumerate(SERVICES)}
KEY = "a-key-of-sixteen-characters-or-more"


def _service(name: str) -> dict[str, str]:
    service = next(service for service in SERVICES if service.name == name)
    [command] = service.commands({"GROUNDLINE_LOG_LEVEL": "debug"}, ADDRESSES, {})
    return dict(command.env)


def test_api_keys_do_not_reach_the_services() -> None:
    environ = {"GROUNDLINE_API_KEY": "k", "GROUNDLINE_API_KEYS": "[]", "GROUNDLINE_GATEWAY_API_KEYS": "[]"}
    assert not set(services_environment(environ, "postgresql://")) & set(environ)


def test_the_users_settings_reach_the_services_and_win_over_the_local_defaults() -> None:
    environ = {"PATH": "p", "GROUNDLINE_DRAIN_SECONDS": "3", "GROUNDLINE_GENERATOR_PROVIDER": "gemini"}
    environment = services_environment(environ, "postgresql://here")
    assert environment.items() >= environ.items()
    assert environment["GROUNDLINE_DATABASE_URL"] == "postgresql://here"


def test_a_service_listens_on_its_own_address() -> None:
    env = _service("reranker")
    host, port = env["GROUNDLINE_RERANKER_HOST"], env["GROUNDLINE_RERANKER_PORT"]
    assert f"{host}:{port}" == ADDRESSES["reranker"]
    assert env["GROUNDLINE_LOG_LEVEL"] == "debug"


def test_the_coordinator_knows_the_services_that_it_calls() -> None:
    env = _service("coordinator")
    targets = {name: value for name, value in env.items() if name.endswith("_TARGET")}
    assert targets == {
        "GROUNDLINE_COORDINATOR_RETRIEVER_TARGET": ADDRESSES["retriever"],
        "GROUNDLINE_COORDINATOR_GENERATOR_TARGET": ADDRESSES["generator"],
    }


def test_the_reranker_knows_the_generator_which_judges_for_it() -> None:
    targets = {name: value for name, value in _service("reranker").items() if name.endswith("_TARGET")}
    assert targets == {"GROUNDLINE_RERANKER_GENERATOR_TARGET": ADDRESSES["generator"]}


def test_the_bridge_knows_whom_it_speaks_for() -> None:
    targets = {name: value for name, value in _service("bridge").items() if name.endswith("_TARGET")}
    assert targets == {
        "GROUNDLINE_BRIDGE_COORDINATOR_TARGET": ADDRESSES["coordinator"],
        "GROUNDLINE_BRIDGE_RETRIEVER_TARGET": ADDRESSES["retriever"],
        "GROUNDLINE_BRIDGE_INGESTOR_TARGET": ADDRESSES["ingestor"],
    }


def test_the_health_name_of_a_service_is_its_full_grpc_name() -> None:
    assert [service.grpc_name for service in SERVICES if service.speaks_grpc] == [
        "groundline.v1.CollectorService",
        "groundline.v1.IngestorService",
        "groundline.v1.RetrieverService",
        "groundline.v1.RerankerService",
        "groundline.v1.GeneratorService",
        "groundline.v1.CoordinatorService",
    ]


@pytest.mark.parametrize("keys", ["not json", '{"key": 1}'])
async def test_unreadable_gateway_keys_are_one_clear_error(keys: str, tmp_path: Path) -> None:
    environ = {"GROUNDLINE_GATEWAY_API_KEYS": keys}
    with pytest.raises(StackError, match="GROUNDLINE_GATEWAY_API_KEYS is not a JSON list"):
        async with gateway_command(environ, tmp_path / "envoy.json", 8080, KEY, ADDRESSES, None):
            pass


async def test_a_key_that_the_gateway_refuses_is_one_clear_error_without_the_key(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="gateway settings: api_keys") as caught:
        async with gateway_command({}, tmp_path / "envoy.json", 8080, "tooshort", ADDRESSES, None):
            pass
    assert "tooshort" not in str(caught.value)


def written(directory: Path) -> list[str]:
    """Return the texts of the files there, all of which are private."""
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in directory.iterdir())
    return [file.read_text() for file in directory.iterdir()]


async def test_the_gateway_sends_spans_where_the_services_do(tmp_path: Path) -> None:
    path = tmp_path / "envoy.json"
    environ = {"GROUNDLINE_OTLP_ENDPOINT": "http://127.0.0.1:4317"}
    async with gateway_command(environ, path, 8080, KEY, ADDRESSES, None):
        assert "envoy.tracers.opentelemetry" in "".join(written(tmp_path))


async def test_the_gateways_configuration_is_private_and_knows_every_key_by_its_hash(tmp_path: Path) -> None:
    more = [{"key": "another-key-of-someone", "client": "alice", "principals": ["user:alice"]}]
    path = tmp_path / "envoy.json"
    environ = {"GROUNDLINE_API_KEYS": json.dumps(more)}
    async with gateway_command(environ, path, 8080, KEY, ADDRESSES, None) as command:
        everything = "".join(written(tmp_path))
    for key in (KEY, "another-key-of-someone"):
        assert hashlib.sha256(key.encode()).hexdigest() in everything
        assert key not in everything
    assert str(path) in command.argv
    assert set(command.env) == {"PATH"}


def test_each_replica_listens_on_its_own_address_and_knows_all_of_the_others() -> None:
    addresses = {name: f"{address},127.0.0.1:{6000 + len(name)}" for name, address in ADDRESSES.items()}
    coordinator = next(service for service in SERVICES if service.name == "coordinator")
    one, two = coordinator.commands({}, addresses, {})
    assert (one.name, two.name) == ("coordinator-1", "coordinator-2")
    ports = [command.env["GROUNDLINE_COORDINATOR_PORT"] for command in (one, two)]
    assert [f"127.0.0.1:{port}" for port in ports] == addresses["coordinator"].split(",")
    for command in (one, two):
        assert command.env["GROUNDLINE_COORDINATOR_RETRIEVER_TARGET"] == addresses["retriever"]


def test_each_replica_serves_its_metrics_on_a_port_of_its_own() -> None:
    addresses = dict.fromkeys(ADDRESSES, "127.0.0.1:5001,127.0.0.1:5002")
    metrics = {"coordinator": "127.0.0.1:7001,127.0.0.1:7002"}
    coordinator, reranker = (
        next(service for service in SERVICES if service.name == name) for name in ("coordinator", "reranker")
    )
    ports = [
        each.env["GROUNDLINE_COORDINATOR_METRICS_PORT"]
        for each in coordinator.commands({}, addresses, metrics)
    ]
    assert ports == ["7001", "7002"]
    for command in reranker.commands({}, addresses, metrics):
        assert "GROUNDLINE_RERANKER_METRICS_PORT" not in command.env
