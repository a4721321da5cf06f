"""The OpenAI API: its requests as models, its replies and errors as JSON."""
