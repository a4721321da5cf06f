"""Address under which the client of the current request reaches the gateway, for links in what it gets."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_gateway: Final[ContextVar[str]] = ContextVar("gateway")


def current_gateway() -> str:
    """Return the address, without a slash at its end."""
    return _gateway.get()


@contextmanager
def reached_at(address: str) -> Iterator[None]:
    """Make it the address of the requests that the block serves."""
    token = _gateway.set(address)
    try:
        yield
    finally:
        _gateway.reset(token)
