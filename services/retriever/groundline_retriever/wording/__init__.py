"""Words of queries: which are misspelled, and what another language has for them."""
