"""A whole cluster of one node: a real kubelet in a virtual machine, its API server beside it (`make kubelet`)."""
