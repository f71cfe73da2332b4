"""How to decide: kubelet configuration, version and feature gates, resolved."""
