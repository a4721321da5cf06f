"""Records, tables and other structured text."""
