"""Bulk load of files of records into a collection."""
