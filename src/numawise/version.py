"""The version of numawise."""

__version__ = "0.1.0"
