"""Settings of the bridge."""

from typing import Annotated

from groundline_runtime.settings import ServiceSettings
from pydantic import AfterValidator, Field
from pydantic_settings import SettingsConfigDict


def _without_slash(url: str) -> str:
    return url.rstrip("/")


Target = Annotated[str, Field(min_length=1)]
PublicUrl = Annotated[str, Field(pattern=r"^https?://[^/?#\s]+(/[^?#\s]*)?$"), AfterValidator(_without_slash)]


class BridgeSettings(ServiceSettings):
    """Settings of the bridge, read from GROUNDLINE_BRIDGE_* and GROUNDLINE_*."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_BRIDGE_")

    coordinator_target: Target
    """Address of the coordinator: host:port, or dns:///host:port for all its replicas."""

    retriever_target: Target
    """Address of the retriever."""

    ingestor_target: Target
    """Address of the ingestor."""

    public_url: PublicUrl | None = None
    """Address under which clients reach the gateway, for links of citations. Default: the address that a
    request was sent to, which is `http` if TLS ends before the gateway."""

    max_request_bytes: Annotated[int, Field(ge=1024, le=64 << 20)] = 1 << 20
    """Maximum body of a request, in bytes; the gateway has a limit of its own."""

    max_concurrent_requests: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Maximum requests under way; further ones are told to try again."""

    heartbeat_seconds: Annotated[float, Field(gt=0, le=600)] = 15
    """Time without an event after which a stream gets a comment, so that proxies keep it open."""
