"""Adapters of the reranker: its models."""
