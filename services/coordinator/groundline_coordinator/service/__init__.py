"""The use cases of the coordinator, over its ports."""
