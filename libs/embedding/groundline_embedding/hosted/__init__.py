"""Models behind an HTTP API."""
