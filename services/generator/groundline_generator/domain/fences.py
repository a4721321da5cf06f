"""Delimiters that data in a prompt cannot close: every tag carries a nonce, which no text can know.

Escaping everything that looks like a tag would never end (zero-width characters, full-width brackets …) and
would change code and markup; so texts go to the model as they are.
"""

import hashlib
import hmac
import secrets
from typing import Final

_BYTES: Final = 4
_KEY: Final = secrets.token_bytes(32)


def new_nonce() -> str:
    """Return a nonce for one call."""
    return secrets.token_hex(_BYTES)


def document_nonce(text: str) -> str:
    """Return the nonce of all calls about one document, so that providers can cache the prompts' common
    beginning; it is constant within a process."""
    return hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()[: 2 * _BYTES]


def fenced(tag: str, nonce: str, text: str, **attributes: object) -> str:
    """Put a text between `<tag-nonce>` and `</tag-nonce>`."""
    written = "".join(f' {name}="{attribute(str(value))}"' for name, value in attributes.items())
    return f"<{tag}-{nonce}{written}>\n{text}\n</{tag}-{nonce}>"


def attribute(text: str) -> str:
    """Escape a text as the value of a tag's attribute."""
    return " ".join(text.replace('"', "'").split())
