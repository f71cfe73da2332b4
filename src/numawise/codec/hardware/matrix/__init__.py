"""The matrix of ``nvidia-smi topo -m`` out of text in any dress: its words, header, rows and drawn tables."""
