"""The kubelet's three state files: read, and judged by themselves and beside the node."""
