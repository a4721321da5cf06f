"""Outbox of a search index outside PostgreSQL."""
