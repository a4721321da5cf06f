"""A clock that advances only when somebody waits."""

__all__ = ["Clock"]


class Clock:
    """A clock: a call returns the time; `sleep` lets it pass."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
