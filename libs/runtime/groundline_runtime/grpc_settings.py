"""gRPC's own settings: those of the process, which it reads when `grpc` is imported, and those of every
connection."""

import os
from typing import Final

# Each request wakes threads of gRPC's pool, which then look for more work some ten times in the next second.
# Without the pool, the thread that waits for requests reads a server's sockets. Clients keep the pool:
# otherwise a connection without a call under way would be served only every five seconds.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")

CONNECTION_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # Measuring the bandwidth takes a ping and a timer for each message, which costs more than a small request
    # itself. Instead, a window of fixed size, in bytes, keeps 8 Gbit/s busy at 1 ms.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024**2),
    ("grpc.max_metadata_size", 64 * 1024),
)
"""Options of servers and channels."""
