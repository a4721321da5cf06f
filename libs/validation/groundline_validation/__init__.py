"""Validation of messages by the limits that `protos/` states, and by the rules between their fields."""

from groundline_validation.addresses import page_address
from groundline_validation.options import options_of
from groundline_validation.rules import rule
from groundline_validation.walker import has_format, validate, violations_of

__all__ = ["has_format", "options_of", "page_address", "rule", "validate", "violations_of"]
