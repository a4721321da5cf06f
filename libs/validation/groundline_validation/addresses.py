"""Addresses of web pages."""

from typing import Final
from urllib.parse import urljoin, urlsplit, urlunsplit

MAX_URL_BYTES: Final = 2000
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def page_address(link: str, base: str = "") -> str | None:
    """Return the address of the page that a link on the page `base` leads to, in one spelling, without
    fragment.

    None for links to other things than web pages: other schemes, credentials in the URL, invalid URLs.
    """
    try:
        parts = urlsplit(urljoin(base, link.strip()))
        port = parts.port
        host = parts.hostname or ""
        if ":" not in host:
            host = host.encode("idna").decode()
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host or parts.username is not None:
        return None
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORTS[parts.scheme]:
        netloc = f"{netloc}:{port}"
    target = urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))
    # Characters that cannot be printed, NUL and halves of surrogate pairs among them, cannot be stored
    # either.
    return target if target.isprintable() and len(target.encode()) <= MAX_URL_BYTES else None
