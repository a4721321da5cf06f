"""gRPC reads its settings when it is imported, so they have to be there by then; its threads begin with the
first call."""

import subprocess
import sys

import pytest

SERVICES = ("collector", "coordinator", "generator", "ingestor", "reranker", "retriever")

WATCH_IMPORTS = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            print(os.environ.get("GRPC_EXPERIMENTS"))
sys.meta_path.insert(0, Watch())
"""

OPEN_CHANNEL = """
import asyncio, threading
from groundline.v1 import retriever_service_pb2_grpc
from groundline_runtime.channels import open_channel

async def main():
    async with open_channel("127.0.0.1:1", service="groundline.v1.RetrieverService") as channel:
        retriever_service_pb2_grpc.RetrieverServiceStub(channel)
        print(threading.active_count())

asyncio.run(main())
"""


def run(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_sets_grpc_up_before_it_imports_it(service: str) -> None:
    done = run(f"{WATCH_IMPORTS}\nimport groundline_{service}, grpc")
    assert done.stdout == "-event_engine_listener\n"


def test_grpc_knows_what_it_is_set_to() -> None:
    """One that does not complains at every start."""
    assert run("import groundline_runtime, grpc").stderr == ""
    assert "nonsense" in run("import groundline_runtime, grpc", GRPC_EXPERIMENTS="nonsense").stderr


def test_a_channel_starts_no_thread_before_its_first_call() -> None:
    """gRPC's threads wake up several times a second."""
    assert run(OPEN_CHANNEL).stdout == "1\n"
