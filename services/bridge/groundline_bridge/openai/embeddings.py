"""Requests and replies of POST /v1/embeddings."""

import base64
import struct
from typing import Annotated, Any, Final, Literal

from groundline.v1 import ingestor_service_pb2
from groundline_runtime.errors import FailedPreconditionError, GroundlineError, NotFoundError
from pydantic import BeforeValidator, Field

from groundline_bridge.openai.errors import about_parameters
from groundline_bridge.openai.requests import OpenAiRequest

_LARGEST_DIMENSIONS: Final = 2**31 - 1


def _texts(given: Any) -> Any:
    texts = [given] if isinstance(given, str) else given
    if isinstance(texts, list) and any(isinstance(each, int | list) for each in texts):
        raise ValueError("token ids belong to another model: send texts")
    return texts


class EmbeddingsRequest(OpenAiRequest):
    """Body of POST /v1/embeddings."""

    ignored = frozenset({"user"})

    model: Annotated[str, Field(min_length=1)]
    input: Annotated[list[str], BeforeValidator(_texts)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, le=_LARGEST_DIMENSIONS)] | None = None


def embed_request_of(asked: EmbeddingsRequest) -> ingestor_service_pb2.EmbedTextsRequest:
    return ingestor_service_pb2.EmbedTextsRequest(
        texts=asked.input, model=asked.model, dimensions=asked.dimensions or 0
    )


def embeddings(embedded: ingestor_service_pb2.EmbedTextsResponse, *, encoding_format: str) -> dict[str, Any]:
    """Return a list of embedding objects."""
    encoded = _base64 if encoding_format == "base64" else list
    data = [
        {"object": "embedding", "index": index, "embedding": encoded(each.values)}
        for index, each in enumerate(embedded.embeddings)
    ]
    usage = {"prompt_tokens": embedded.token_count, "total_tokens": embedded.token_count}
    return {"object": "list", "data": data, "model": embedded.model, "usage": usage}


def unknown_embedding_model(error: GroundlineError) -> GroundlineError:
    """Translate the error of a model that is not running: in the OpenAI API, it does not exist."""
    is_mismatch = isinstance(error, FailedPreconditionError) and error.reason == "EMBEDDING_MODEL_MISMATCH"
    return NotFoundError("MODEL_NOT_FOUND", error.message) if is_mismatch else about_parameters(error)


def _base64(values: Any) -> str:
    """Encode as 32-bit floats, little-endian."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
