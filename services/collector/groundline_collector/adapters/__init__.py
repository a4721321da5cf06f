"""Adapters of the collector: addresses, HTTP, and sources of each kind."""
