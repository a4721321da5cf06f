"""The viewer of traces of `groundline up --observe`: MLflow, in an environment of its own."""

import hashlib
import json
import os
import sys
import tempfile
import time
from asyncio import Event, create_task, to_thread
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from groundline_cli.stack.errors import ChildDiedError, StackError
from groundline_cli.stack.files import make_private_directory
from groundline_cli.stack.ports import LOOPBACK, reserved_port
from groundline_cli.stack.process import Command
from groundline_cli.stack.readiness import post, wait_until_healthy
from groundline_cli.stack.relay import relaying
from groundline_cli.stack.supervisor import Supervisor

type Report = Callable[[str], None]

KEPT_DAYS: Final = 7
"""Age of the traces that a start deletes, in days."""

REQUIREMENTS: Final = Path(__file__).with_name("viewer-requirements.txt")
_INSTALLATION: Final = "viewer-installation"
_DOWNLOAD: Final = "70 MB"
_INSTALL_TIMEOUT_SECONDS: Final = 1800.0
_START_TIMEOUT_SECONDS: Final = 120.0
_EXPERIMENT: Final = "0"
"""MLflow's default experiment, which has all traces."""

_ONE_TRACE: Final = "selectedEvaluationId=tr-{trace_id}&traceId=tr-{trace_id}"
"""Query of the page that opens one, by the ids that MLflow gives traces of OpenTelemetry."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer that answers."""

    url: str
    """Address of its page of traces."""
    trace_url: str
    """Address of a trace, with {trace_id} in place of its id, for the console's links."""
    endpoint: str
    """Where it takes spans over OTLP/gRPC."""
    supervisor: Supervisor
    """Supervisor of its own, since the suite goes on without it."""


def refuse_other_collectors(environ: Mapping[str, str]) -> None:
    """Raise StackError if telemetry is to go elsewhere: a process has one endpoint."""
    for name in sorted(environ):
        if name.startswith("GROUNDLINE_") and name.endswith("OTLP_ENDPOINT") and environ[name]:
            raise StackError(
                f"--observe sends traces to its own viewer: unset {name}, or leave out --observe"
            )


def environment_folder() -> Path:
    """Return where the environment of this list and interpreter is, which all suites of the user share."""
    made_of = REQUIREMENTS.read_bytes() + f"{sys.base_prefix} {sys.version}".encode()
    return platformdirs.user_cache_path("groundline") / "viewer" / hashlib.sha256(made_of).hexdigest()[:16]


@asynccontextmanager
async def running_viewer(
    data_dir: Path, port: int, environ: Mapping[str, str], report: Report
) -> AsyncIterator[Viewer | None]:
    """Run the viewer on a port of loopback (0: a free one), and install it at first; call it on the main
    thread.

    Yields None if it cannot be installed or started, after the reason has been reported. Its traces are below
    `data_dir`. Raises PortTakenError.
    """
    async with AsyncExitStack() as resources:
        port = _port(port, resources)
        supervisor = await resources.enter_async_context(Supervisor(data_dir / "logs"))
        url = f"http://{LOOPBACK}:{port}"
        try:
            python = await _installed(supervisor, environ, report)
            await supervisor.start(
                _command(python, make_private_directory(data_dir / "viewer"), port, environ)
            )
            await supervisor.until(
                wait_until_healthy(f"{url}/health", timeout_seconds=_START_TIMEOUT_SECONDS)
            )
            await to_thread(_delete_old_traces, url)
        except (StackError, OSError) as error:
            report(f"no viewer of traces, the suite goes on without it: {error}")
            await supervisor.stop()
            yield None
            return
        endpoint = await resources.enter_async_context(
            relaying(f"{url}/v1/traces", {"x-mlflow-experiment-id": _EXPERIMENT})
        )
        watching = create_task(_tell_end(supervisor, report))
        resources.callback(watching.cancel)
        page = f"{url}/#/experiments/{_EXPERIMENT}/traces"
        yield Viewer(page, f"{page}?{_ONE_TRACE}", endpoint, supervisor)


def _port(port: int, resources: AsyncExitStack) -> int:
    if port == 0:
        return resources.enter_context(reserved_port())
    # Held until the server binds it, one asked for by number would be refused to the server too.
    with reserved_port(port):
        return port


async def _installed(supervisor: Supervisor, environ: Mapping[str, str], report: Report) -> Path:
    """Return the interpreter of the viewer's environment, which is made if it is missing. Raises StackError,
    OSError."""
    folder = environment_folder()
    if (folder / "bin/python").exists():
        return folder / "bin/python"
    report(
        f"installing the viewer of traces into {folder}, once: some {_DOWNLOAD} to download; "
        f"log: {supervisor.log_path(_INSTALLATION)}"
    )
    started = time.monotonic()
    environment = {name: value for name, value in environ.items() if not name.startswith("GROUNDLINE_")}
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another suite may install the same: the first to finish puts it in place.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="installing-") as building:
        made = Path(building) / "environment"
        pip = (str(made / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps")
        pinned_only = ("--require-hashes", "--only-binary", ":all:", "--requirement", str(REQUIREMENTS))
        for argv in ((sys.executable, "-m", "venv", str(made)), (*pip, *pinned_only)):
            command = Command(name=_INSTALLATION, argv=argv, env=environment)
            await supervisor.run(command, timeout_seconds=_INSTALL_TIMEOUT_SECONDS)
        with suppress(OSError):
            made.rename(folder)
    report(f"viewer of traces installed ({time.monotonic() - started:.1f} s)")
    return folder / "bin/python"


def _command(python: Path, folder: Path, port: int, environ: Mapping[str, str]) -> Command:
    """Return what starts the server itself: `mlflow server` would start it as a child of its own, which takes
    as much memory again and outlives a parent that is killed."""
    env = {
        "PATH": environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ENABLE_AI_GATEWAY": "false",
        "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder / 'mlflow.db'}",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": str(folder / "artifacts"),
        "_MLFLOW_SGI_NAME": "uvicorn",
    }
    argv = ("-m", "uvicorn", "--host", LOOPBACK, "--port", str(port), "--no-access-log")
    return Command(name="viewer", argv=(str(python), *argv, "mlflow.server.fastapi_app:app"), env=env)


def _delete_old_traces(url: str) -> None:
    before = int((time.time() - KEPT_DAYS * 86_400) * 1000)
    wanted = {"experiment_id": _EXPERIMENT, "max_timestamp_millis": before}
    address = f"{url}/api/3.0/mlflow/traces/delete-traces"
    headers = {"content-type": "application/json"}
    # The first request to a new data directory makes the database's tables.
    post(address, json.dumps(wanted).encode(), headers, timeout_seconds=_START_TIMEOUT_SECONDS)


async def _tell_end(supervisor: Supervisor, report: Report) -> None:
    """Report that the viewer has crashed again and again, and is not started any more."""
    try:
        await supervisor.until(Event().wait())
    except ChildDiedError as error:
        report(f"no viewer of traces any more, the suite goes on without it: {error}")
