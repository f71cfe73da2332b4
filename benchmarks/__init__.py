"""How long decisions take: ``python -m benchmarks``."""
