"""``numawise lab``: virtual nodes on any API server that admit pods as kubelets do."""
