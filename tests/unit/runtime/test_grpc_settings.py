"""gRPC reads its settings when it is imported, so they have to be there by then."""

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
