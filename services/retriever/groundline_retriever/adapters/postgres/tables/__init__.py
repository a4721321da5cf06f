"""Tables of documents in PostgreSQL."""
