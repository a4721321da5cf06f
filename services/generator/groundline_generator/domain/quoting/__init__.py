"""Answers without a model: which sentences to quote, and how."""
