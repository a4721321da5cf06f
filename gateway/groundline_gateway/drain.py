"""Drain a running gateway before it is stopped, since Envoy drops requests under way at SIGTERM.

A preStop hook in Kubernetes. It needs the gateway's admin_address, on loopback.
"""

import argparse
import http.client
import json
import sys
import time
from collections.abc import Sequence
from typing import Final

_ACTIVE: Final = "http.public.downstream_rq_active"
_POLL_SECONDS: Final = 0.2


def drain(admin: str, *, wait_seconds: float, limit_seconds: float) -> int:
    """Make every response close its connection, then wait until no request is under way.

    It takes `wait_seconds` at least, for load balancers to notice, and after that `limit_seconds` at most.
    Returns the number of requests that are left. Raises OSError if no gateway answers.
    """
    _ask(admin, "POST", "/healthcheck/fail")
    time.sleep(wait_seconds)
    deadline = time.monotonic() + limit_seconds
    while (active := _active(admin)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return active


def _active(admin: str) -> int:
    stats = json.loads(_ask(admin, "GET", f"/stats?format=json&filter=^{_ACTIVE}$"))["stats"]
    return sum(int(stat["value"]) for stat in stats)


def _ask(admin: str, method: str, path: str) -> bytes:
    connection = http.client.HTTPConnection(admin, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise OSError(f"{path}: HTTP {response.status}")
    return body


def main(argv: Sequence[str] | None = None) -> None:
    """Run `drain-gateway ADMIN WAIT LIMIT`. Exits with 1 if requests are left, or no gateway answers."""
    parser = argparse.ArgumentParser(prog="drain-gateway", description=__doc__)
    parser.add_argument("admin", help="address of Envoy's admin interface, host:port")
    parser.add_argument("wait_seconds", type=float, help="time for load balancers to notice")
    parser.add_argument("limit_seconds", type=float, help="maximum time for requests under way after that")
    options = parser.parse_args(argv)
    try:
        left = drain(options.admin, wait_seconds=options.wait_seconds, limit_seconds=options.limit_seconds)
    except OSError as error:
        print(f"drain-gateway: {options.admin}: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    if left:
        print(f"drain-gateway: {left} requests still under way", file=sys.stderr)
        raise SystemExit(1)
