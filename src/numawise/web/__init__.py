"""The page and its API: a face of everything below, as the command line is another."""
