"""What the coordinator computes: pure functions over the contract's messages."""
