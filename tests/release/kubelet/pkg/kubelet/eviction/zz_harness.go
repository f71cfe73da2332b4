package eviction

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// HarnessAdmitHandler is the eviction manager's admit handler of a node under these pressures.
func HarnessAdmitHandler(conditions []v1.NodeConditionType) lifecycle.PodAdmitHandler {
	return &managerImpl{nodeConditions: conditions}
}
