"""Adapters of the bridge: HTTP, MCP and the other services."""
