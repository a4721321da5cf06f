"""Readers of formats that are not plain text, by kind; they run in confined processes, see `sandbox`."""
