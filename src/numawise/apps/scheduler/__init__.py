"""The scheduler extender: what kube-scheduler is told about nodes, and how it asks."""
