"""Files of Envoy's configuration, and those beside it whose changes Envoy follows."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from groundline_gateway.envoy import tokens
from groundline_gateway.envoy.bootstrap import render
from groundline_gateway.envoy.canary import LAYER, runtime
from groundline_gateway.envoy.nodes import Node, http_of
from groundline_gateway.keys import Holder
from groundline_gateway.settings import GatewaySettings


def write(
    settings: GatewaySettings,
    path: Path,
    holders: Mapping[str, Holder] = MappingProxyType({}),
    audit_log: Path | None = None,
) -> None:
    """Write the configuration to `path`, and beside it the routes, token checks and shares of candidates,
    whose changes Envoy follows. Raises SettingsError.

    Only their owner may read them, since they name the holders of keys.
    """
    config = render(settings, holders, path, audit_log)
    if settings.jwt_issuers:
        write_tokens(settings, path)
    if settings.canary_addresses:
        write_shares(settings, path)
        layer = {"name": LAYER, "rtds_config": _source(_shares_path(path))}
        config["layered_runtime"]["layers"].append({"name": LAYER, "rtds_layer": layer})
    for listener in config["static_resources"]["listeners"]:
        http = http_of(listener)
        for entry in http["http_filters"]:
            if entry["name"] == tokens.FILTER:
                del entry["typed_config"]
                source = _source(_tokens_path(path))
                entry["config_discovery"] = {"config_source": source, "type_urls": [tokens.AUTHENTICATION]}
        routes = http.pop("route_config")
        file = _routes_path(path, listener)
        http["rds"] = {"route_config_name": routes["name"], "config_source": _source(file)}
        _write_private(file, _discovered(routes))
    _write_private(path, config)


def write_routes(settings: GatewaySettings, path: Path, holders: Mapping[str, Holder]) -> None:
    """Rewrite the routes, which depend on the holders of keys, beside the configuration in `path`."""
    for listener in render(settings, holders, path)["static_resources"]["listeners"]:
        _write_private(_routes_path(path, listener), _discovered(http_of(listener)["route_config"]))


def write_tokens(settings: GatewaySettings, path: Path) -> None:
    """Rewrite the token checks, which depend on key sets, beside the configuration in `path`. Raises
    SettingsError."""
    extension = {
        "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
        "name": tokens.FILTER,
        "typed_config": tokens.authentication(settings.jwt_issuers),
    }
    _write_private(_tokens_path(path), {"resources": [extension]})


def write_shares(settings: GatewaySettings, path: Path) -> None:
    """Rewrite the candidates' shares, which depend on the file of the settings, beside the configuration in
    `path`."""
    _write_private(_shares_path(path), {"resources": [runtime(settings)]})


def _shares_path(path: Path) -> Path:
    return path.with_suffix(".canary.json")


def _tokens_path(path: Path) -> Path:
    return path.with_suffix(".tokens.json")


def _routes_path(path: Path, listener: Node) -> Path:
    # Envoy takes one listener's routes from a file.
    return path.with_suffix(f".{listener['name']}-routes.json")


def _source(path: Path) -> Node:
    return {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}


def _discovered(routes: Node) -> Node:
    return {
        "resources": [{"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", **routes}]
    }


def _write_private(path: Path, content: Node) -> None:
    # Envoy notices a file that is moved to its path, and never sees half of one.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            # Not json.dump: it takes ten times as long.
            file.write(json.dumps(content))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
