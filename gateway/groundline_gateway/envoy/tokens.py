"""JWTs of the configured issuers: how Envoy checks them, and the claims that identity.lua reads."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from groundline_runtime.settings import SettingsError

from groundline_gateway.envoy.nodes import EXTENSIONS
from groundline_gateway.settings import JwtIssuer

FILTER: Final = "envoy.filters.http.jwt_authn"
AUTHENTICATION: Final = f"{EXTENSIONS}.filters.http.jwt_authn.v3.JwtAuthentication"
_FETCH_TIMEOUT: Final = "5s"
# The three parts of a token. Any other value of Authorization: Bearer is an API key.
_BEARER_JWT: Final = r"(?i:bearer) +[^.\s]*\.[^.\s]*\.[^.\s]*"

# Envoy keeps the keys that it had when it is given an empty set. This one holds a key that nobody knows.
_NO_KEYS: Final = json.dumps({"keys": [{"kty": "oct", "alg": "HS512", "k": secrets.token_urlsafe(64)}]})


def authentication(issuers: Sequence[JwtIssuer]) -> dict[str, Any]:
    """Return Envoy's jwt_authn filter: it checks signature, issuer, audience and times of every token, or
    answers 401."""
    names = [_name(index) for index in range(len(issuers))]
    requirements = [{"provider_name": name} for name in names]
    requires = requirements[0] if len(requirements) == 1 else {"requires_any": {"requirements": requirements}}
    bearer = {"name": "authorization", "string_match": {"safe_regex": {"regex": _BEARER_JWT}}}
    return {
        "@type": AUTHENTICATION,
        "providers": {_name(index): _provider(index, issuer) for index, issuer in enumerate(issuers)},
        "rules": [{"match": {"prefix": "/", "headers": [bearer]}, "requires": requires}],
    }


def claims(issuers: Sequence[JwtIssuer]) -> dict[str, Any]:
    """Return, for each issuer, the claims that identity.lua reads from a checked token."""
    return {
        _name(index): {
            "client": issuer.client_claim,
            "principals": [each.model_dump() for each in issuer.principals],
            "scope": issuer.scope_claim,
            "scopes": list(issuer.scopes),
        }
        for index, issuer in enumerate(issuers)
    }


def key_set(file: Path) -> str:
    """Read a file that holds a JSON Web Key Set. Raises SettingsError."""
    try:
        text = file.read_text(encoding="utf-8")
        keys = json.loads(text)["keys"]
    except (OSError, ValueError, KeyError, TypeError):
        keys = None
    if not isinstance(keys, list):
        raise SettingsError(f"jwks_file: {file} cannot be read as a JSON Web Key Set")
    return text if keys else _NO_KEYS


def cluster_name(index: int) -> str:
    """Return the name of the cluster that an issuer's keys are fetched from."""
    return f"jwks_{index}"


def _name(index: int) -> str:
    return f"issuer_{index}"


def _provider(index: int, issuer: JwtIssuer) -> dict[str, Any]:
    if issuer.jwks_url is None:
        assert issuer.jwks_file is not None, "set either jwks_url or jwks_file"
        keys: dict[str, Any] = {"local_jwks": {"inline_string": key_set(issuer.jwks_file)}}
    else:
        uri = {"uri": str(issuer.jwks_url), "cluster": cluster_name(index), "timeout": _FETCH_TIMEOUT}
        # Fetched when a token comes and the last keys are this old. Fetched ahead of time, an empty or
        # unreachable key set would leave the last keys in force for good.
        keys = {"remote_jwks": {"http_uri": uri, "cache_duration": f"{issuer.jwks_refresh_seconds:.3f}s"}}
    # Tokens are not cached: a cached one would outlive the key that signed it.
    return {
        "issuer": issuer.issuer,
        "audiences": list(issuer.audiences),
        "require_expiration": True,
        "from_headers": [{"name": "authorization", "value_prefix": "Bearer "}],
        "payload_in_metadata": _name(index),
        "header_in_metadata": f"{_name(index)}_header",
        "failed_status_in_metadata": "failed",
        **keys,
    }
