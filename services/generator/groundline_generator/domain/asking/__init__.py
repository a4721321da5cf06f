"""What a question asks for, and which sentences say it."""
