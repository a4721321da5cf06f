"""What the bridge meets outside: HTTP, MCP and the other services."""
