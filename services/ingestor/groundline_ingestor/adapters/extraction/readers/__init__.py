"""Readers of formats that are not text, which run in a process of their own; see `sandbox`."""
