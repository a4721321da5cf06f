"""A process that serves grpc.health as a service does: `stand_in_service NAME GRPC_NAME`."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


def main(name: str, grpc_name: str) -> None:
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    servicer = health.HealthServicer()
    servicer.set(grpc_name, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    prefix = f"GROUNDLINE_{name.upper()}"
    server.add_insecure_port(f"{os.environ[f'{prefix}_HOST']}:{os.environ[f'{prefix}_PORT']}")
    server.start()
    print(f"{name} is up", flush=True)
    signal.signal(signal.SIGTERM, lambda number, frame: server.stop(0).wait() and sys.exit(0))
    while True:
        signal.pause()


main(*sys.argv[1:])
