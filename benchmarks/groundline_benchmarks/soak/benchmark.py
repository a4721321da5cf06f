"""Growth of a suite that is used for a long time."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groundline_benchmarks.chaos.load import Load, Outcome
from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.processes import Held, all_held
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.suite import Suite

_WARM_SECONDS: Final = 30.0
"""Time after which caches, pools and threads are filled, in seconds."""
_REPORT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class SoakFigures:
    """Resources of each process by name, warm and at the end."""

    minutes: float
    requests: int
    failures: Mapping[str, int]
    """Number of requests that failed, by kind, outcome and reason."""
    before: Mapping[str, Held]
    after: Mapping[str, Held]

    def goals(self) -> list[Goal]:
        """Return limits of growth that a steady load does not explain. PostgreSQL's buffers fill for as long
        as there are new documents, so its memory is shown and not judged."""
        found = [Goal("requests that failed", sum(self.failures.values()), 0)]
        for name, after in self.after.items():
            before = self.before[name]
            if name != "postgres":
                limit = max(16.0, before.memory_mib / 10)
                found.append(Goal(f"{name}: memory, MiB more", after.memory_mib - before.memory_mib, limit))
            # A backend of PostgreSQL opens the files of a table when it first meets it, and keeps them open.
            limit = 16 * after.processes if name == "postgres" else 16
            found.append(Goal(f"{name}: descriptors more", after.descriptors - before.descriptors, limit))
            found.append(Goal(f"{name}: connections more", after.connections - before.connections, 16))
            found.append(Goal(f"{name}: threads more", after.threads - before.threads, 8))
        return found


async def measure_soak(suite: Suite, load: Load, minutes: float, report: Report) -> SoakFigures:
    """Measure under a steady load for `minutes`."""
    async with load.running(searches=2, chats=2, hand_ins=1):
        report(f"{_WARM_SECONDS:g} s to warm up")
        await asyncio.sleep(_WARM_SECONDS)
        before = all_held(suite.pids)
        load.asked.clear()
        end = time.monotonic() + minutes * 60
        while (left := end - time.monotonic()) > 0:
            report(f"{left / 60:.1f} minutes to go, {len(load.asked)} requests until now")
            await asyncio.sleep(min(left, _REPORT_SECONDS))
    # No request is under way, so resources that are still held are leaks.
    await asyncio.sleep(2)
    failures = Counter(
        f"{one.kind} {one.outcome} {one.reason}".strip()
        for one in load.asked
        if one.outcome not in (Outcome.OK, Outcome.DEGRADED)
    )
    return SoakFigures(minutes, len(load.asked), failures, before, all_held(suite.pids))
