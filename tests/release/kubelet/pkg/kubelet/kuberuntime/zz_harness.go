package kuberuntime

import kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"

// HarnessRuntime is a container runtime that answers one question: how a container may swap on a
// node of control groups version 2, with or without swap.
func HarnessRuntime(behavior string, swap bool) kubecontainer.Runtime {
	isCgroup2UnifiedMode = func() bool { return true }
	return &kubeGenericRuntimeManager{memorySwapBehavior: behavior, getSwapControllerAvailable: func() bool { return swap }}
}
