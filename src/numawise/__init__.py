"""numawise: decide, explain and carry out NUMA placement as the kubelet does."""

__version__ = "0.1.0"
