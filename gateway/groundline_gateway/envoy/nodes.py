"""Parts that Envoy's configuration is made of."""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

EXTENSIONS: Final = "type.googleapis.com/envoy.extensions"
FILTER_CONFIG: Final = "type.googleapis.com/envoy.config.route.v3.FilterConfig"

type Node = dict[str, Any]


def set_headers(headers: Mapping[str, str]) -> list[Node]:
    return [
        {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
        for key, value in headers.items()
    ]


def override(scope: Node, filter_name: str, config: Node) -> None:
    scope.setdefault("typed_per_filter_config", {})[f"envoy.filters.http.{filter_name}"] = config


def named(entries: Iterable[Node]) -> dict[str, Node]:
    return {entry["name"]: entry for entry in entries}


def http_of(listener: Node) -> Node:
    http: Node = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return http


def socket_address(address: str) -> Node:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}


def duration(seconds: float) -> str:
    return f"{seconds:.3f}s"


def resource(name: str) -> str:
    return files("groundline_gateway").joinpath(name).read_text(encoding="utf-8")
