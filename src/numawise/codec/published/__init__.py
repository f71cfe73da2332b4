"""The exact state of a node, as it is published in attributes of a NodeResourceTopology."""
