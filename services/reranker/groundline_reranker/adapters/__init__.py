"""What the reranker reaches outside itself."""
