"""The file that ``numawise bundle`` makes of a node: its archive, its manifest, and what is left of names."""
