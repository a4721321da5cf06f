"""Checks messages by the limits that `protos/` states, and by the rules between their fields."""

from groundline_validation.rules import rule
from groundline_validation.walker import limits_of, validate, violations_of

__all__ = ["limits_of", "rule", "validate", "violations_of"]
