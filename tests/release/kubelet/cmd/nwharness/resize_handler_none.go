//go:build no_resize_handler

package main

import (
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// resizeHandlers: up to 1.35 the allocation manager itself decides what this handler decides later.
func resizeHandlers(cm.ContainerManager, kubecontainer.Runtime, allocation.Manager) []lifecycle.PodAdmitHandler {
	return nil
}
