"""Comparison of the keyword engines that a server offers."""
