"""Claims: cut out of texts, and judged."""
