"""The cluster on one page: all nodes in short rows, one node in full, and an example of it all."""
