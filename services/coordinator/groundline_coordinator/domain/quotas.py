"""Usage of the quotas that are counted in the database."""

from dataclasses import dataclass, field

from groundline_runtime.quotas import Spent


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Threads that a caller began, the tokens that its answers took since midnight UTC, and what it and all
    callers spent."""

    threads: int = 0
    tokens: int = 0
    spent: Spent = field(default_factory=Spent)
