"""Domain of the ingestor: values and pure functions, a module for each topic."""
