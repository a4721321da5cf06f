"""Addresses that may be reached for a collection.

A host's name is resolved once, its addresses are checked, and the connection goes to a checked one: a name
that changes in between leads nowhere. Certificates are checked against the name.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
# Addresses that Python's is_global misses: relays of 6to4, documentation, and the address by which Azure's
# machines reach their host.
_NOT_THE_INTERNETS: Final = tuple(
    map(ipaddress.ip_network, ("192.88.99.0/24", "3fff::/20", "168.63.129.16/32"))
)

type Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class AddressNotAllowedError(Exception):
    """A host has an address outside the internet, and no other may be reached."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host[:200]} is not a public address of the internet; collection and operator would both "
            "have to allow it"
        )


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host. Raises OSError."""
    return await asyncio.to_thread(_addresses, host, port)


def is_public(address: str) -> bool:
    """Tell whether an IP address belongs to the internet; one that embeds an IPv4 address does not count."""
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    is_assigned = ip.version == 4 or ip in _GLOBAL_UNICAST
    is_other = any(ip in network for network in _NOT_THE_INTERNETS if network.version == ip.version)
    return is_assigned and ip.is_global and not ip.is_multicast and not is_other


def checked_address(host: str, port: int, *, private_addresses: bool) -> str:
    """Return an address of a host that may be reached; blocks. Raises AddressNotAllowedError, OSError."""
    return checked(host, _addresses(host, port), lambda address: private_addresses or is_public(address))


def _addresses(host: str, port: int) -> Sequence[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a part of the name is longer than 63 characters, or empty
        raise OSError("the name is not a host's") from error
    return [str(address[4][0]) for address in found]


def checked(host: str, addresses: Sequence[str], is_allowed: Callable[[str], bool]) -> str:
    """Return the first address of a host, all of which have to be allowed. Raises AddressNotAllowedError, or
    OSError without an address."""
    if not addresses:
        raise OSError("the name has no address")
    if not all(map(is_allowed, addresses)):
        raise AddressNotAllowedError(host)
    return addresses[0]
