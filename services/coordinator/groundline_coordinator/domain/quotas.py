"""Usage of the quotas that are counted in the database."""

from dataclasses import dataclass

__all__ = ["QuotaUse"]


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Threads that a caller began, the tokens that its answers took since midnight UTC, and their price in US
    dollars since then and since the month began."""

    threads: int = 0
    tokens: int = 0
    day_usd: float = 0.0
    month_usd: float = 0.0
