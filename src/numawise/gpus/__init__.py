"""Our own choice of GPUs: links, measures and the search for the best linked set."""
