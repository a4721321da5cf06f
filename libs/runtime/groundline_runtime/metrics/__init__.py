"""Metrics: how they are declared, and those that several services have."""
