"""The command that `helm test` runs in a pod, on a suite that runs."""

import asyncio
import subprocess
import sys

from groundline_tests.suite import Stack
from helm_chart import CHART

COMMAND = (CHART / "files/healthy.py").read_text()


async def asked(gateway: str) -> subprocess.CompletedProcess[str]:
    """Run it as the pod does: with nothing but its two variables."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", COMMAND],
        env={"GATEWAY": gateway, "ATTEMPTS": "1"},
        capture_output=True,
        text=True,
    )


async def test_a_gateway_that_does_not_answer_fails_the_test(unused_tcp_port: int) -> None:
    done = await asked(f"http://127.0.0.1:{unused_tcp_port}")
    assert done.returncode == 1
    assert "refused" in done.stdout
    assert done.stderr == "not every service answers: kubectl get pods tells which is not ready\n"


async def test_a_suite_whose_services_all_answer_passes_the_test(stack: Stack) -> None:
    done = await asked(stack.ready["gateway"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
