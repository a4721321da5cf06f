"""Cutting of a text into claims."""

import asyncio
from typing import Final

from groundline.v1 import generator_service_pb2 as pb
from groundline_runtime.errors import FieldViolation, InvalidArgumentError

from groundline_generator.domain.checking.claims import claims_of

MAX_CLAIMS: Final = 500
"""Maximum claims of a text; some half a minute of searching."""

_INLINE_CHARACTERS: Final = 20_000
"""Maximum characters of a text that is cut on the event loop, in some milliseconds."""


async def split_claims(request: pb.SplitClaimsRequest) -> pb.SplitClaimsResponse:
    """Return the claims of a text. Raises InvalidArgumentError if there are too many."""
    if len(request.text) <= _INLINE_CHARACTERS:
        claims = list(claims_of(request.text))
    else:
        claims = await asyncio.to_thread(lambda: list(claims_of(request.text)))
    if len(claims) > MAX_CLAIMS:
        description = f"has {len(claims)} claims, which must be at most {MAX_CLAIMS}"
        raise InvalidArgumentError([FieldViolation("text", description)])
    return pb.SplitClaimsResponse(claims=claims)
