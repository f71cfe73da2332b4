"""Lint kubelet configurations, machines, state files and pods, together and against a release."""
