"""Backups of a suite's database: written, checked, and brought back whole or one collection at a time."""
