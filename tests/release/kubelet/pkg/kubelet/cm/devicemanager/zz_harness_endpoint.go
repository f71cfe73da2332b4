//go:build !endpoint_without_context

package devicemanager

import (
	"context"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func (p *inProcessPlugin) getPreferredAllocation(_ context.Context, available, mustInclude []string, size int) (*pluginapi.PreferredAllocationResponse, error) {
	return p.prefer(available, mustInclude, size), nil
}
func (p *inProcessPlugin) allocate(_ context.Context, ids []string) (*pluginapi.AllocateResponse, error) {
	return p.answer(ids), nil
}
func (p *inProcessPlugin) preStartContainer(context.Context, []string) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}
