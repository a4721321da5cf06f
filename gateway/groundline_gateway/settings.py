"""What an operator may set of the gateway."""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self

from groundline_runtime.settings import Settings
from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_settings import SettingsConfigDict

from groundline_gateway.scopes import Scope

__all__ = ["CLIENT_PATTERN", "PRINCIPAL_PATTERN", "ApiKey", "ClaimPrincipals", "GatewaySettings", "JwtIssuer"]

Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]

_ADDRESS = r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"

Address = Annotated[str, StringConstraints(pattern=rf"^{_ADDRESS}$")]
"""host:port; the host is a name or an IP address (IPv6 in brackets)."""

Addresses = Annotated[str, StringConstraints(pattern=rf"^{_ADDRESS}(,{_ADDRESS})*$")]
"""The replicas of a service: one host:port, or several with commas between them."""

Origin = Annotated[str, StringConstraints(pattern=r"^(\*|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?)$")]
"""Scheme, host and port as browsers send them, or "*" for every origin."""

# Visible ASCII without the comma, which separates principals, and two headers of the same name.
PRINCIPAL_PATTERN = r"^[!-+\--~]{1,128}$"
CLIENT_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
_KEY = re.compile(r"[!-+\--~]{16,256}")


def _ip(host: str) -> str:
    return str(ip_address(host))


class ApiKey(BaseModel):
    """A key and who its holder is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: SecretStr
    """16 to 256 visible ASCII characters, no comma."""
    client: Annotated[str, StringConstraints(pattern=CLIENT_PATTERN)]
    """Name in logs and the unit of rate limiting; several keys may share it, to rotate one for another."""
    principals: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=PRINCIPAL_PATTERN)], ...],
        Field(min_length=1, max_length=64),
    ]
    """Whom the services see, such as user:alice and group:staff."""
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)] = tuple(Scope)
    """What it may be used for: search, chat, ingest, admin. Not set: all of it."""

    @field_validator("key")
    @classmethod
    def _key_is_usable(cls, key: SecretStr) -> SecretStr:
        if not _KEY.fullmatch(key.get_secret_value()):
            raise ValueError("a key is 16 to 256 visible ASCII characters without a comma")
        return key


class ClaimPrincipals(BaseModel):
    """Which principals a claim gives."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """A claim with a string or a list of them; one inside another with dots, as realm_access.roles."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[!-+\--~]{0,64}$")] = ""
    """Stands before each value, such as "user:"."""


class JwtIssuer(BaseModel):
    """Who issues tokens that the gateway takes, and what they say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """The claim iss, exactly."""
    audiences: Annotated[tuple[str, ...], Field(min_length=1, max_length=16)]
    """A token is for one of them."""
    jwks_url: AnyHttpUrl | None = None
    """Where the issuer publishes its keys."""
    jwks_file: Path | None = None
    """Its keys in a file, instead, which is read again every key_refresh_seconds."""
    jwks_refresh_seconds: Annotated[float, Field(ge=1, le=86400)] = 300
    """Time until a key that the issuer has added or withdrawn at jwks_url is known here."""
    principals: Annotated[tuple[ClaimPrincipals, ...], Field(min_length=1, max_length=16)]
    """A JSON list of {"claim", "prefix"}. The first one says who the caller is, to whom belongs what
    it makes; a token without that claim is refused."""
    client_claim: Annotated[str, StringConstraints(min_length=1, max_length=256)] = "sub"
    """Name in logs, and the unit of limits."""
    scope_claim: Annotated[str, StringConstraints(min_length=1, max_length=256)] = "scope"
    """A string of words, or a list; search, chat, ingest and admin in it are taken."""
    scopes: tuple[Scope, ...] = ()
    """What every token of this issuer may be used for besides."""

    @model_validator(mode="after")
    def _keys_have_one_place(self) -> Self:
        if (self.jwks_url is None) == (self.jwks_file is None):
            raise ValueError("set jwks_url or jwks_file")
        return self


class GatewaySettings(Settings):
    """Settings of the gateway, from GROUNDLINE_GATEWAY_<NAME> or else GROUNDLINE_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_GATEWAY_")

    host: Annotated[str, AfterValidator(_ip)] = "127.0.0.1"
    """IP address to listen on; 0.0.0.0 or :: in a container."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8080
    """TCP port to listen on; plain HTTP/1.1 and HTTP/2, TLS ends in front of it."""
    grpc_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """TCP port for gRPC: the API's RPCs, with the same keys, and reflection. Not set: none."""
    coordinator_address: Addresses = "127.0.0.1:50051"
    """The coordinator: a headless service's name in Kubernetes, or its replicas with commas between them."""
    retriever_address: Addresses = "127.0.0.1:50052"
    """The retriever; only its health is asked for."""
    reranker_address: Addresses = "127.0.0.1:50053"
    """The reranker; only its health is asked for."""
    generator_address: Addresses = "127.0.0.1:50054"
    """The generator; only its health is asked for."""
    ingestor_address: Addresses = "127.0.0.1:50055"
    """The ingestor."""
    bridge_address: Addresses = "127.0.0.1:50056"
    """The bridge, which speaks the OpenAI API and MCP."""
    api_keys: tuple[ApiKey, ...] = ()
    """A JSON list of {"key", "client", "principals", "scopes"}: keys that change with a restart."""
    database_url: SecretStr | None = None
    """PostgreSQL with the keys that `groundline keys` makes and revokes; reading `api_keys` is enough."""
    jwt_issuers: Annotated[tuple[JwtIssuer, ...], Field(max_length=16)] = ()
    """A JSON list of {"issuer", "audiences", "jwks_url", "principals", …}: whose JWTs are taken for a key."""
    key_refresh_seconds: Annotated[float, Field(ge=0.1, le=60)] = 2
    """Time until a key that was made or revoked, or a change of a jwks_file, is known here."""
    rate_limit_per_minute: PositiveInt = 600
    """Requests a client may make a minute in the long run; each gateway process counts on its own."""
    rate_limit_burst: PositiveInt = 100
    """Requests that a client may make at once after a pause."""
    max_concurrent_requests: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Requests of a client that may be under way at once, one that brings documents counting as several; each
    worker thread counts on its own."""
    max_wrong_keys_per_minute: PositiveInt = 60
    """Wrong keys of an IP address that are told to be wrong, before further ones are told to wait."""
    max_heap_bytes: Annotated[int, Field(ge=64 << 20)] = 512 << 20
    """Memory the gateway may use; near it, the largest requests are ended and new ones refused."""
    max_request_bytes: Annotated[int, Field(ge=1024, le=16 << 20)] = 256 << 10
    """Largest body of a request, documents excepted."""
    max_document_request_bytes: Annotated[int, Field(ge=1024, le=64 << 20)] = 4 << 20
    """Largest body of a request that brings documents as JSON; what is larger is uploaded."""
    request_timeout_seconds: Seconds = 30
    """Deadline of a request that is not named below."""
    answer_timeout_seconds: Seconds = 120
    """Deadline of a chat, answer or search."""
    document_timeout_seconds: Seconds = 600
    """Deadline of a request on documents."""
    watch_timeout_seconds: Seconds = 3600
    """Longest time to watch one job; a client watches again after it."""
    connect_timeout_seconds: Seconds = 1
    """Time for a connection to a service to come about."""
    health_interval_seconds: Seconds = 2
    """Time between health checks of each service. One that gets no requests from the gateway is asked 2.5
    times more seldom as long as it is well: only /healthz speaks of it."""
    cors_origins: Annotated[tuple[Origin, ...], Field(max_length=100)] = ()
    """A JSON list of origins such as "https://app.example.com", or "*", whose pages may call the API from a
    browser. Empty: none but the gateway's own."""
    audit_log_file: Path | None = None
    """Where it is kept who did what, one JSON line a request. Not set: standard error."""
    otlp_endpoint: AnyHttpUrl | None = None
    """Collector of traces over OTLP/gRPC, such as http://collector:4317. Not set: no traces."""
    worker_threads: PositiveInt = 2
    """Envoy's worker threads."""
    admin_address: Address | None = None
    """Where Envoy's admin interface listens; it can stop the process. Not set: nowhere."""

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if len({entry.key.get_secret_value() for entry in self.api_keys}) < len(self.api_keys):
            raise ValueError("api_keys holds the same key twice")
        if not self.api_keys and not self.jwt_issuers and self.database_url is None:
            raise ValueError("nobody could call: set api_keys, database_url or jwt_issuers")
        if len({issuer.issuer for issuer in self.jwt_issuers}) < len(self.jwt_issuers):
            raise ValueError("jwt_issuers holds the same issuer twice")
        if self.grpc_port == self.port:
            raise ValueError("grpc_port is the same as port")
        return self
