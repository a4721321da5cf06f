"""What a request of another protocol means here: pure functions."""
