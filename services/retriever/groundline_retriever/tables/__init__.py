"""Questions to tables of documents."""
