"""State files of the kubelet changed: repaired and converted."""
