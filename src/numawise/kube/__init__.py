"""Kubernetes from outside: the API server, and what a kubelet tells over HTTP."""
