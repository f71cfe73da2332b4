"""The agent of a Kubernetes node: what it offers to the kubelet, and how it stays in touch with it."""
