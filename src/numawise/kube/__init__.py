"""Kubernetes from outside: the API server, and what a kubelet answers over HTTP."""
