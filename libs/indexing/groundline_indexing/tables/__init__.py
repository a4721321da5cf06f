"""Tables of documents: found in their rows, and stored."""
