"""Measurements of the suite on this machine."""
