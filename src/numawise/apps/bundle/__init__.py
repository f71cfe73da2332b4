"""What ``numawise bundle`` collects on a node, and how it is packed."""
