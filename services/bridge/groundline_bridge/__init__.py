"""Groundline in the words of others: the OpenAI API, and the Model Context Protocol."""
