"""Pods on simulated nodes: scenarios, fills, many nodes, two configurations."""
