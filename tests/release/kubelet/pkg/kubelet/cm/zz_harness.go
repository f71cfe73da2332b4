package cm

import v1 "k8s.io/api/core/v1"

// HarnessReservation is what the container manager reserves of a node of this capacity.
func HarnessReservation(config NodeConfig, capacity v1.ResourceList) v1.ResourceList {
	return (&containerManagerImpl{NodeConfig: config, capacity: capacity}).GetNodeAllocatableReservation()
}

// HarnessAllocatable is what the node offers to pods.
func HarnessAllocatable(config NodeConfig, capacity v1.ResourceList) v1.ResourceList {
	return (&containerManagerImpl{NodeConfig: config, capacity: capacity}).GetNodeAllocatableAbsolute()
}
