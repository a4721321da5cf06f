"""Connectors to sources of each kind, in a module with the kind's name in the contract."""
