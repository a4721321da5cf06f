"""Quality of retrieval and answers on sets of questions; knows nothing of the terminal."""
