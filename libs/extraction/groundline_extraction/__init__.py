"""Extraction of text from documents; import from the modules."""
