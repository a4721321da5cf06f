"""Translation of other protocols' requests: pure functions."""
