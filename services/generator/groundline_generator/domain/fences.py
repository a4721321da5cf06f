"""Delimiters that data in a prompt cannot close: every tag carries a nonce, which no text can know.

Escaping what looks like a tag would never end (zero-width characters, full-width brackets …) and would change
code and markup; so texts go to the model as they are.
"""

import hashlib
import hmac
import secrets

__all__ = ["attribute", "document_nonce", "fenced", "new_nonce"]

_BYTES = 4
_KEY = secrets.token_bytes(32)


def new_nonce() -> str:
    """For one call."""
    return secrets.token_hex(_BYTES)


def document_nonce(text: str) -> str:
    """For all calls about one document, so that providers can cache the prompts' common beginning; the same
    within a process."""
    return hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()[: 2 * _BYTES]


def fenced(tag: str, nonce: str, text: str, **attributes: object) -> str:
    """A text between `<tag-nonce>` and `</tag-nonce>`."""
    written = "".join(f' {name}="{attribute(str(value))}"' for name, value in attributes.items())
    return f"<{tag}-{nonce}{written}>\n{text}\n</{tag}-{nonce}>"


def attribute(text: str) -> str:
    """A text as the value of a tag's attribute."""
    return " ".join(text.replace('"', "'").split())
