"""The kubelet's three state files: shown, verified, repaired and converted."""
