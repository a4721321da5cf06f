"""Connectors: what is behind sources of each kind."""
