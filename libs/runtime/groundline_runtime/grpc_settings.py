"""gRPC's own settings: of the process, which it reads when `grpc` is imported, and of every connection."""

import os

__all__ = ["CONNECTION_OPTIONS"]

# Each request wakes threads of gRPC's pool, which then look for more work some ten times in the next second.
# Without it, a server's sockets are read by the thread that waits for requests. Clients keep the pool: else a
# connection on which no call is under way would be looked after every five seconds only.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")

CONNECTION_OPTIONS: tuple[tuple[str, int], ...] = (
    # Measuring the connection takes a ping and a timer of each message, which costs more than a small request
    # itself. In its place a window of fixed size, in bytes, which keeps 8 Gbit/s busy at 1 ms.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024**2),
    ("grpc.max_metadata_size", 64 * 1024),
)
"""Options of servers and channels alike."""
