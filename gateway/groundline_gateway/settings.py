"""Settings of the gateway."""

import re
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

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

from groundline_gateway.scopes import OF_COLLECTIONS, Scope

Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]

_ADDRESS: Final = r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"

Address = Annotated[str, StringConstraints(pattern=rf"^{_ADDRESS}$")]
"""host:port; the host is a name or an IP address (IPv6 in brackets)."""

Addresses = Annotated[str, StringConstraints(pattern=rf"^{_ADDRESS}(,{_ADDRESS})*$")]
"""Replicas of a service: one host:port, or several separated by commas."""

type Canaried = Literal["coordinator", "retriever", "ingestor", "bridge"]

Origin = Annotated[str, StringConstraints(pattern=r"^(\*|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?)$")]
"""Scheme, host and port as browsers send them, or "*" for every origin."""

# Visible ASCII without the comma, which separates principals and headers of the same name. Not "*", which
# stands for everyone in lists of access: what its caller created would be everyone's.
PRINCIPAL_PATTERN: Final = r"^([!-)+\--~]|[!-+\--~]{2,128})$"
MAX_PRINCIPALS: Final = 64
"""Maximum number of a key's principals."""
CLIENT_PATTERN: Final = r"^[A-Za-z0-9._-]{1,64}$"
_KEY: Final = re.compile(r"[!-+\--~]{16,256}")


# As a page may call it: what the policy of a page allows is an origin and no more.
_ORIGIN: Final = r"(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?"
_ISSUER: Final = rf"^{_ORIGIN}(/[!-~]*)?$"
# Ids of traces are 32 hexadecimal digits.
_TRACE_URL: Final = r"^https?://[!-~]*\{trace_id\}[!-~]*$"


def _ip(host: str) -> str:
    return str(ip_address(host))


class ApiKey(BaseModel):
    """A key and its holder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: SecretStr
    """16 to 256 visible ASCII characters, no comma."""
    client: Annotated[str, StringConstraints(pattern=CLIENT_PATTERN)]
    """Name in logs and the unit of rate limiting; several keys may share it, to rotate one for another."""
    principals: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=PRINCIPAL_PATTERN)], ...],
        Field(min_length=1, max_length=MAX_PRINCIPALS),
    ]
    """Principals of the caller, such as user:alice and group:staff."""
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)] = tuple(
        scope for scope in Scope if scope in OF_COLLECTIONS
    )
    """Scopes: search, chat, ingest, admin, administration. Not set: all but administration."""

    @field_validator("key")
    @classmethod
    def _key_is_usable(cls, key: SecretStr) -> SecretStr:
        if not _KEY.fullmatch(key.get_secret_value()):
            raise ValueError("a key is 16 to 256 visible ASCII characters without a comma")
        return key


class ClaimPrincipals(BaseModel):
    """A claim that names principals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Name of a claim that holds a string or a list of strings; dots lead to inner claims, as in
    realm_access.roles."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[!-+\--~]{0,64}$")] = ""
    """Text before each value, such as "user:"."""


class JwtIssuer(BaseModel):
    """An issuer whose tokens the gateway accepts, and the meaning of their claims."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """Exact value of the claim iss."""
    audiences: Annotated[tuple[str, ...], Field(min_length=1, max_length=16)]
    """Accepted audiences; a token must name one of them."""
    jwks_url: AnyHttpUrl | None = None
    """URL at which the issuer publishes its keys."""
    jwks_file: Path | None = None
    """File that holds its keys instead; it is read again every key_refresh_seconds."""
    jwks_refresh_seconds: Annotated[float, Field(ge=1, le=86400)] = 300
    """Maximum time until a change of the keys at jwks_url takes effect, in seconds."""
    principals: Annotated[tuple[ClaimPrincipals, ...], Field(min_length=1, max_length=16)]
    """A JSON list of {"claim", "prefix"}. The first names the caller, who owns what it creates; a token
    without that claim is refused."""
    client_claim: Annotated[str, StringConstraints(min_length=1, max_length=256)] = "sub"
    """Claim that names the client in logs and limits."""
    scope_claim: Annotated[str, StringConstraints(min_length=1, max_length=256)] = "scope"
    """Claim with the scopes, as words in a string or as a list; those other than search, chat,
    ingest, admin and administration are ignored."""
    scopes: tuple[Scope, ...] = ()
    """Scopes that every token of this issuer has in addition."""

    @model_validator(mode="after")
    def _keys_have_one_place(self) -> Self:
        if (self.jwks_url is None) == (self.jwks_file is None):
            raise ValueError("set jwks_url or jwks_file")
        return self


class ConsoleSignIn(BaseModel):
    """A client of an issuer as which people sign in to the console."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    issuer: Annotated[str, StringConstraints(pattern=_ISSUER)]
    """Issuer, one of jwt_issuers: https, or http on loopback."""
    endpoint_origins: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=f"^{_ORIGIN}$")], ...], Field(max_length=8)
    ] = ()
    """Origins of its endpoints for tokens and revocation, if they differ from the issuer's own, such as
    https://staff.auth.eu-central-1.amazoncognito.com. The console calls no others."""
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Id of a public client there, whose redirect address is the console's: no secret is sent."""
    scopes: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[!#-\[\]-~]{1,256}$")], ...], Field(max_length=32)
    ] = ("openid",)
    """Scopes to ask for, openid among them. With offline_access most issuers give a token for renewal."""

    @property
    def origins(self) -> Sequence[str]:
        """Scheme, host and port of what the console calls: the issuer, then its further endpoints."""
        address = urlsplit(self.issuer)
        return (f"{address.scheme}://{address.netloc}", *self.endpoint_origins)

    @field_validator("scopes")
    @classmethod
    def _is_openid_connect(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("openid is missing")
        return scopes


class GatewaySettings(Settings):
    """Settings of the gateway, from GROUNDLINE_GATEWAY_<NAME> or else GROUNDLINE_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_GATEWAY_")

    host: Annotated[str, AfterValidator(_ip)] = "127.0.0.1"
    """IP address to listen on; 0.0.0.0 or :: in a container."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8080
    """TCP port to listen on, for plain HTTP/1.1 and HTTP/2; TLS ends in front of it."""
    grpc_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """TCP port for gRPC: the API's RPCs, with the same keys, and reflection. Not set: none."""
    coordinator_address: Addresses = "127.0.0.1:50051"
    """The coordinator: a headless service's name in Kubernetes, or its replicas with commas between them."""
    retriever_address: Addresses = "127.0.0.1:50052"
    """The retriever."""
    reranker_address: Addresses = "127.0.0.1:50053"
    """The reranker; only its health is asked for."""
    generator_address: Addresses = "127.0.0.1:50054"
    """The generator; only its health is asked for."""
    ingestor_address: Addresses = "127.0.0.1:50055"
    """The ingestor."""
    bridge_address: Addresses = "127.0.0.1:50056"
    """The bridge, which speaks the OpenAI API and MCP."""
    canary_addresses: dict[Canaried, Addresses] = Field(default={})
    """A JSON object of candidates: addresses of new versions of coordinator, retriever, ingestor or bridge,
    by service. They get the share of the requests that canary_weight_file says."""
    canary_weight_file: Path | None = None
    """File that holds the candidates' share of the requests, in percent: a whole number. It is read again
    every key_refresh_seconds; anything else, or no file, is 0."""
    api_keys: tuple[ApiKey, ...] = ()
    """A JSON list of {"key", "client", "principals", "scopes"}: keys that change only with a restart."""
    database_url: SecretStr | None = None
    """PostgreSQL database of the keys that `groundline keys` creates and revokes, and of the audit log."""
    jwt_issuers: Annotated[tuple[JwtIssuer, ...], Field(max_length=16)] = ()
    """A JSON list of {"issuer", "audiences", "jwks_url", "principals", …}: issuers whose JWTs are accepted in
    place of a key."""
    console_sign_in: ConsoleSignIn | None = None
    """A JSON object {"issuer", "client_id", "scopes"}: how people sign in to the console in place of a key,
    by OpenID Connect. Not set: with a key alone."""
    console_trace_url: Annotated[str, StringConstraints(pattern=_TRACE_URL, max_length=2000)] | None = None
    """Address of a trace in a viewer, with {trace_id} in place of its id: the console links each new answer
    to it. Not set: no links."""
    key_refresh_seconds: Annotated[float, Field(ge=0.1, le=60)] = 2
    """Maximum time until a change of the keys or of a jwks_file takes effect, in seconds."""
    rate_limit_per_minute: PositiveInt = 600
    """Maximum requests of a client per minute in the long run; each gateway process counts on its own."""
    rate_limit_burst: PositiveInt = 100
    """Maximum requests of a client at once after a pause."""
    max_concurrent_requests: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Maximum requests of a client under way at once; one that carries documents counts as several. Each
    worker thread counts on its own."""
    max_searches_under_way: PositiveInt = 128
    """Maximum searches under way at the retrievers from this gateway; further ones are refused at once (429).
    A client has no more of them than it leaves to the others, half if it is alone; all but a sixteenth for
    each replica wait in the gateway for its earlier ones. Some 64 for each replica, more if they wait for a
    slow model."""
    max_wrong_keys_per_minute: PositiveInt = 60
    """Maximum requests with a wrong key per minute from an IP address before further ones are told to
    wait."""
    max_heap_bytes: Annotated[int, Field(ge=64 << 20)] = 512 << 20
    """Maximum memory of the gateway; near it, the largest requests are ended and new ones refused."""
    max_request_bytes: Annotated[int, Field(ge=1024, le=16 << 20)] = 256 << 10
    """Maximum body of a request without documents."""
    max_document_request_bytes: Annotated[int, Field(ge=1024, le=64 << 20)] = 4 << 20
    """Maximum body of a request with documents as JSON; larger documents are uploaded."""
    request_timeout_seconds: Seconds = 30
    """Deadline of requests that have no setting of their own below."""
    answer_timeout_seconds: Seconds = 120
    """Deadline of a chat, answer or search."""
    document_timeout_seconds: Seconds = 600
    """Deadline of a request on documents."""
    watch_timeout_seconds: Seconds = 3600
    """Maximum time to watch one job; a client then watches again."""
    connect_timeout_seconds: Seconds = 1
    """Maximum time to connect to a service."""
    health_interval_seconds: Seconds = 2
    """Time between health checks of each service. A healthy one that gets no requests from the gateway is
    checked 2.5 times less often, one whose address is a single IP address 5 times: only /healthz shows it."""
    cors_origins: Annotated[tuple[Origin, ...], Field(max_length=100)] = ()
    """A JSON list of origins such as "https://app.example.com", or "*", whose pages may call the API from a
    browser. Empty: only the gateway's own pages."""
    audit_log_file: Path | None = None
    """File of the audit log, one JSON line per request. Not set: standard error."""
    audit_retention_days: Annotated[int, Field(ge=0, le=36_500)] = 365
    """Time that calls that change something, or were refused, stay in the audit log of the database, in days.
    0: none is stored there."""
    audit_reads: bool = False
    """Whether the audit log of the database has searches, answers and other reads, too."""
    otlp_endpoint: AnyHttpUrl | None = None
    """Collector of traces, and of the audit log as log records, over OTLP/gRPC, such as http://collector:4317.
    Not set: neither is sent."""
    worker_threads: PositiveInt = 2
    """Envoy's worker threads."""
    admin_address: Address | None = None
    """Address of Envoy's admin interface, which can stop the process. Not set: none."""
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """TCP port on which GET /metrics has Envoy's figures for Prometheus, and nothing else is served; plain
    HTTP, on host. It needs admin_address. 0 takes a free one, which the admin interface's /listeners names.
    Not set: none."""

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if len({entry.key.get_secret_value() for entry in self.api_keys}) < len(self.api_keys):
            raise ValueError("api_keys holds the same key twice")
        if not self.api_keys and not self.jwt_issuers and self.database_url is None:
            raise ValueError("no caller could be identified: set api_keys, database_url or jwt_issuers")
        if len({issuer.issuer for issuer in self.jwt_issuers}) < len(self.jwt_issuers):
            raise ValueError("jwt_issuers holds the same issuer twice")
        if self.console_sign_in and self.console_sign_in.issuer not in [
            each.issuer for each in self.jwt_issuers
        ]:
            raise ValueError("the issuer of console_sign_in is not among jwt_issuers")
        if bool(self.canary_addresses) != (self.canary_weight_file is not None):
            raise ValueError("set canary_addresses and canary_weight_file, or neither")
        if self.grpc_port == self.port:
            raise ValueError("grpc_port is the same as port")
        if self.metrics_port is not None and self.admin_address is None:
            raise ValueError("metrics_port needs admin_address: it shows what Envoy's admin interface knows")
        if self.metrics_port is not None and self.metrics_port in (self.port, self.grpc_port):
            raise ValueError("metrics_port is the same as port or grpc_port")
        return self
