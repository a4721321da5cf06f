"""Conditions on documents: parsed from JSON to a tree, compiled to SQL."""

from groundline_filters.constants import holds_always
from groundline_filters.parsing import FilterError, Problem, parse, parse_facet, parse_json, plain
from groundline_filters.sql import Columns, Condition, compile_sql
from groundline_filters.tree import FacetField, Filter, Path

__all__ = [
    "Columns",
    "Condition",
    "FacetField",
    "Filter",
    "FilterError",
    "Path",
    "Problem",
    "compile_sql",
    "holds_always",
    "parse",
    "parse_facet",
    "parse_json",
    "plain",
]
