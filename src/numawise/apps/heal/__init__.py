"""Pods that kubelets refused: explained, removed by rule, and kept from coming back for nothing."""
