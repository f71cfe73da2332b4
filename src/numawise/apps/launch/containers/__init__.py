"""Containers on their part of the machine: docker, podman and nerdctl."""
