"""Entity tags (AIP-154), by which a change is made only to what it was meant for."""

import hashlib
from typing import Final

from google.protobuf.message import Message

_DIGITS: Final = 32


def entity_tag(message: Message) -> str:
    """Return a text of 32 characters that differs whenever the message does."""
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()[:_DIGITS]
