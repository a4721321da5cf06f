"""Questions to tables, with known answers."""
