"""Use cases of the coordinator, over its ports."""
