"""Contract messages to domain values and back; every wrong field of a request is named."""
