"""What the kubelet demands of a configuration before it looks at the machine."""
