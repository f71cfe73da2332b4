//go:build !no_resize_handler

package main

import (
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/nwcall"
)

// resizeHandlers is the handler of resizes, first in the order since 1.36.
func resizeHandlers(containers cm.ContainerManager, runtime kubecontainer.Runtime, manager allocation.Manager) []lifecycle.PodAdmitHandler {
	return []lifecycle.PodAdmitHandler{nwcall.Func(allocation.NewPodResizesAdmitHandler, containers, runtime, manager)[0].(lifecycle.PodAdmitHandler)}
}
