"""One simulated kubelet: start, admission, containers, restarts and state files."""
