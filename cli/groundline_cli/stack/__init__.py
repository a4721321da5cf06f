"""The whole suite on one machine: embedded PostgreSQL, the services and the gateway as child processes."""
