"""Errors of running the suite on one machine.

StackError                  the message is meant for the person at the terminal
├── DirectoryInUseError     another process runs on the same data directory
├── PortTakenError          a port asked for by number belongs to someone else
├── PostgresError           the embedded server cannot be set up or started
├── StepFailedError         a command that should run to its end failed
├── ChildDiedError          a process that should stay up has ended
└── NotReadyError           a process is up but did not become ready in time
"""


class StackError(Exception):
    """Base class of all errors of this package."""


class DirectoryInUseError(StackError):
    """Another process runs on the same data directory."""


class PortTakenError(StackError):
    """A port asked for by number belongs to someone else."""


class PostgresError(StackError):
    """The embedded server cannot be set up or started."""


class StepFailedError(StackError):
    """A command that should run to its end failed or took too long."""


class ChildDiedError(StackError):
    """A process that should stay up has ended."""


class NotReadyError(StackError):
    """A process is up but did not become ready in time."""
