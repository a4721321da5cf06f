"""The ingestor: what its tests are built from."""
