"""Ctrl-C while a command waits."""

import asyncio
import signal
import threading

import pytest
from groundline_cli.interrupts import run_interruptible


def test_an_interrupt_that_does_not_break_the_wait_of_the_loop_ends_it_all_the_same() -> None:
    seen: list[str] = []

    async def wait() -> None:
        # A signal to another thread sets the interpreter's flag without ending this thread's system call, as
        # one between the last look at the flag and the call does.
        threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)).start()
        asyncio.get_running_loop().call_later(30, seen.append, "the loop woke by itself")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(wait())
    assert seen == ["cleaned up"]


def test_the_wakeup_descriptor_of_the_caller_is_left_as_it_was() -> None:
    async def result() -> int:
        return 3

    assert run_interruptible(result()) == 3
    assert signal.set_wakeup_fd(-1) == -1
