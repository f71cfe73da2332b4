"""Write what is right: kubelet configurations, policy switches and pods that will be aligned."""
