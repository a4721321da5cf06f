"""Settings of Weaviate and its classes."""

from typing import Annotated

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, SecretStr


class WeaviateSettings(BaseModel):
    """Settings of the distributed index; retriever and ingestor must agree on all but the time limit."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )

    grpc_target: Annotated[str, Field(min_length=1, max_length=2000)]
    """gRPC address: `dns:///host:port`, `host:port`, or those of several nodes, `ip:port,ip:port`."""

    http_url: AnyHttpUrl
    """Address of the HTTP API, such as http://weaviate:8080, through which classes are created and writes are
    awaited."""

    api_key: SecretStr | None = None
    """Key to both; unset, none is sent."""

    class_prefix: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]{0,30}$")] = "Groundline"
    """Prefix of the names of classes; installations that share a cluster need one each."""

    replication_factor: Annotated[int, Field(ge=1, le=10)] = 1
    """Nodes that hold each object; applies to classes that are created from now on."""

    shards: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Parts of a class; unset: one if every node holds everything, else one for each node. Applies to classes
    that are created from now on."""

    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Maximum time for one call, within what is left of the request."""
