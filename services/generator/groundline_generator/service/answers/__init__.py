"""Answers: written, checked and corrected on their way to the client."""
