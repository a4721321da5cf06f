"""Domain of the coordinator: pure functions over the contract's messages."""
