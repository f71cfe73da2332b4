"""Many nodes: what their kubelets would say to a pod, and which of them it should go to."""
