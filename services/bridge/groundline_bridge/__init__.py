"""Groundline behind other protocols: the OpenAI API, and the Model Context Protocol."""
