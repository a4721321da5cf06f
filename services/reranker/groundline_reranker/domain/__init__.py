"""What ranking computes: pure functions over the columns of a request."""
