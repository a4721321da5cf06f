"""What the ingestor computes with, and how: values and pure functions, a module for each topic."""
