"""Simulation of a load on the replicas of one service, and of the autoscaler that changes their number."""

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """Kubernetes' HorizontalPodAutoscaler on requests in flight, with the policies of deploy/k8s/base.

    https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/
    """

    minimum: int
    """Minimum replicas."""
    maximum: int
    """Maximum replicas."""
    target: float
    """Requests in flight for each replica that it keeps to."""
    start_seconds: float = 15.0
    """Time from the decision for a replica until it answers, in seconds."""
    sync_seconds: float = 15.0
    """Time between two decisions: the controller's default."""
    tolerance: float = 0.1
    """Deviation from the target that changes nothing, as a share of it: the controller's default."""
    up_seconds: float = 30.0
    """Period within which replicas double at most."""
    down_seconds: float = 60.0
    """Period within which one replica at most goes."""
    stabilization_seconds: float = 300.0
    """Time for which the highest recommendation stands before replicas go."""

    def recommendation(self, in_flight: int, ready: int, replicas: int) -> int:
        """Return the number of replicas for what is in flight; those that are not ready yet count as idle."""
        ratio = in_flight / (ready * self.target)
        if abs(ratio - 1) <= self.tolerance:
            return replicas
        if ratio > 1 and ready < replicas:
            ratio = in_flight / (replicas * self.target)
            if ratio <= 1 + self.tolerance:
                return replicas
        return min(max(math.ceil(ratio * (replicas if ratio > 1 else ready)), self.minimum), self.maximum)


@dataclass(slots=True)
class Simulated:
    """Outcome of a simulation."""

    seconds: list[float] = field(default_factory=list)
    """Time of each request from its arrival to its end, in their order."""
    replicas: list[tuple[float, int]] = field(default_factory=list)
    """Number of replicas from each time on at which it changed."""


@dataclass(slots=True)
class _Replica:
    """A replica: requests wait in their order for one of its places."""

    ready_at: float
    free: list[float]
    """Time at which each place is free, as a heap."""
    ends: deque[float] = field(default_factory=deque)

    def take(self, now: float, service_seconds: float) -> float:
        """Return the time at which a request that arrives now ends."""
        end = max(now, self.free[0]) + service_seconds
        heapq.heapreplace(self.free, end)
        self.ends.append(end)
        return end

    def in_flight(self, now: float) -> int:
        self.ends = deque(end for end in self.ends if end > now)
        return len(self.ends)


def simulate(
    moments: Sequence[float],
    durations: Sequence[float],
    *,
    replicas: int,
    concurrency: int,
    generator: np.random.Generator,
    autoscaler: Autoscaler | None = None,
) -> Simulated:
    """Let requests arrive at `moments`, in seconds and in order, and go to the ready replicas in turn.

    How long each is worked on is drawn from `durations`, which were measured while nothing waited. A replica
    works on `concurrency` of them at a time, and its others wait. A replica that goes finishes what it has.
    """
    pool = [_Replica(-math.inf, [0.0] * concurrency) for _ in range(replicas)]
    result = Simulated(replicas=[(0.0, replicas)])
    history = deque([(0.0, replicas)])  # as if it had been recommended at the begin
    next_sync = autoscaler.sync_seconds if autoscaler else math.inf
    drawn = generator.choice(np.asarray(durations), len(moments))
    for turn, (now, service_seconds) in enumerate(zip(moments, drawn, strict=True)):
        while autoscaler is not None and next_sync <= now:
            wanted = _decided(autoscaler, pool, result.replicas, history, next_sync)
            pool += [
                _Replica(next_sync + autoscaler.start_seconds, [0.0] * concurrency)
                for _ in range(wanted - len(pool))
            ]
            if wanted != result.replicas[-1][1]:
                result.replicas.append((next_sync, wanted))
            del pool[wanted:]
            next_sync += autoscaler.sync_seconds
        ready = [replica for replica in pool if replica.ready_at <= now]
        result.seconds.append(ready[turn % len(ready)].take(now, float(service_seconds)) - now)
    return result


def _decided(
    autoscaler: Autoscaler,
    pool: Sequence[_Replica],
    changes: Sequence[tuple[float, int]],
    history: deque[tuple[float, int]],
    now: float,
) -> int:
    """Return the number of replicas by the recommendations of the window, and by what the policies allow."""
    ready = [replica for replica in pool if replica.ready_at <= now]
    recommended = autoscaler.recommendation(
        sum(replica.in_flight(now) for replica in ready), len(ready), len(pool)
    )
    history.append((now, recommended))
    while history[0][0] <= now - autoscaler.stabilization_seconds:
        history.popleft()

    def before(seconds: float) -> list[int]:
        """Return the numbers of replicas within this time."""
        older = [count for moment, count in changes if moment <= now - seconds]
        return [*older[-1:], *(count for moment, count in changes if moment > now - seconds)]

    if recommended > len(pool):
        return min(recommended, 2 * min(before(autoscaler.up_seconds)))
    kept = max(count for _, count in history)
    return max(min(kept, len(pool)), max(before(autoscaler.down_seconds)) - 1)
