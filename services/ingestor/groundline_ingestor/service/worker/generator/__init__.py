"""Texts that the generator writes for documents."""
