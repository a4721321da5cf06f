"""The audit log: calls of the API, as Envoy logs them, in PostgreSQL."""
