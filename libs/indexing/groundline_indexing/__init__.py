"""Chunks in PostgreSQL and in the distributed index."""
