"""Turns at scarce places, so that no client keeps the others from them."""

from groundline_runtime.turns.places import ClientTurns
from groundline_runtime.turns.queue import ClientQueue
from groundline_runtime.turns.use import RecentUse

__all__ = ["ClientQueue", "ClientTurns", "RecentUse"]
