// The kubelet's own registration server and plugin client, without the rest of it; a kubelet that is restarted once.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

type kubelet struct{}

func say(what string, v any) {
	raw, _ := json.Marshal(v)
	fmt.Println(what, string(raw))
}
func (k *kubelet) CleanupPluginDirectory(klog.Logger, string) error { return nil }
func (k *kubelet) PluginConnected(ctx context.Context, name string, p plugin.DevicePlugin) error {
	options, err := p.API().GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	fmt.Println("connected", name, options, err)
	if name == "example.com/gpu" {
		go ask(p.API())
	}
	return nil
}
func ask(api pluginapi.DevicePluginClient) {
	time.Sleep(time.Second)
	ctx := context.Background()
	preferred, err := api.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: []string{"gpu3", "gpu0", "gpu5", "gpu4"}, MustIncludeDeviceIDs: []string{"gpu5"}, AllocationSize: 2}}})
	fmt.Println("preferred", preferred, err)
	given, err := api.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"gpu4", "gpu5"}}}})
	fmt.Println("allocated", given, err)
	_, err = api.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"gpu9"}}}})
	fmt.Println("refused", err)
	started, err := api.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: []string{"gpu4"}})
	fmt.Println("prestarted", started, err)
	begin := time.Now()
	for i := 0; i < 300; i++ {
		if _, err := api.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"gpu4", "gpu5"}}}}); err != nil {
			fmt.Println("error", err)
		}
	}
	fmt.Println("allocations", 300, time.Since(begin)/300)
}
func (k *kubelet) PluginDisconnected(_ klog.Logger, name string) { fmt.Println("disconnected", name) }
func (k *kubelet) PluginListAndWatchReceiver(_ klog.Logger, name string, r *pluginapi.ListAndWatchResponse) {
	lines := []string{}
	for _, d := range r.Devices {
		lines = append(lines, fmt.Sprint(d.ID, " ", d.Health, " ", d.Topology))
	}
	sort.Strings(lines)
	say("devices "+name, lines)
}

func main() {
	k := &kubelet{}
	for round := 0; round < 2; round++ {
		s, err := plugin.NewServer(klog.Background(), os.Args[1], k, k)
		if err == nil {
			err = s.Start(klog.Background())
		}
		fmt.Println("round", round, "started", err)
		time.Sleep(12 * time.Second)
		fmt.Println("stopped", s.Stop(klog.Background()))
		time.Sleep(time.Second)
	}
}
