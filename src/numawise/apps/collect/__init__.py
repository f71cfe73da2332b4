"""What ``numawise bundle`` gathers on a node, and how it is packed."""
