package devicemanager

import (
	"sort"
	"strings"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/nwcall"
)

// inProcessPlugin answers as a device plugin does, in this process instead of over a socket.
type inProcessPlugin struct {
	resource string
}

func (p *inProcessPlugin) prefer(available, mustInclude []string, size int) *pluginapi.PreferredAllocationResponse {
	ids := append([]string{}, mustInclude...)
	have := sets.New(mustInclude...)
	sort.Strings(available)
	for _, id := range available {
		if len(ids) >= size {
			break
		}
		if !have.Has(id) {
			ids = append(ids, id)
		}
	}
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: ids}}}
}

func (p *inProcessPlugin) answer(ids []string) *pluginapi.AllocateResponse {
	sort.Strings(ids)
	name := "DEVICES_" + strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(strings.ToUpper(p.resource))
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{Envs: map[string]string{name: strings.Join(ids, ",")}}}}
}

func (p *inProcessPlugin) setStopTime(time.Time)        {}
func (p *inProcessPlugin) isStopped() bool              { return false }
func (p *inProcessPlugin) stopGracePeriodExpired() bool { return false }
func (p *inProcessPlugin) socketPath() string           { return "" }

// HarnessNew makes the manager with its files in this folder.
func HarnessNew(dir string, topology []cadvisorapi.Node, store topologymanager.Store) (*ManagerImpl, error) {
	out := nwcall.Func(newManagerImpl, dir+"/kubelet.sock", topology, store)
	return out[0].(*ManagerImpl), nwcall.Error(out)
}

// HarnessStart does what Start does, without the socket that plugins register at.
func (m *ManagerImpl) HarnessStart(activePods ActivePodsFunc, ready config.SourcesReady, containers containermap.ContainerMap, running sets.Set[string]) {
	m.activePods = activePods
	m.sourcesReady = ready
	m.containerMap = containers
	m.containerRunningSet = running
	nwcall.Func(m.readCheckpoint)
}

// HarnessPlugin registers a plugin with its devices.
func (m *ManagerImpl) HarnessPlugin(resource string, prefers bool, devices []*pluginapi.Device) {
	m.mutex.Lock()
	m.endpoints[resource] = endpointInfo{&inProcessPlugin{resource}, &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: prefers}}
	m.mutex.Unlock()
	m.HarnessDevices(resource, devices)
}

// HarnessDevices is a new list of devices from a plugin.
func (m *ManagerImpl) HarnessDevices(resource string, devices []*pluginapi.Device) {
	nwcall.Func(m.genericDeviceUpdateCallback, resource, devices)
}

// HarnessState lists devices by pod, container, resource and NUMA node.
func (m *ManagerImpl) HarnessState() map[string]map[string]map[string]map[int64][]string {
	out := map[string]map[string]map[string]map[int64][]string{}
	m.podDevices.RLock()
	defer m.podDevices.RUnlock()
	for pod, containers := range m.podDevices.devs {
		for container, resources := range containers {
			for resource, info := range resources {
				if out[pod] == nil {
					out[pod] = map[string]map[string]map[int64][]string{}
				}
				if out[pod][container] == nil {
					out[pod][container] = map[string]map[int64][]string{}
				}
				out[pod][container][resource] = info.deviceIds
			}
		}
	}
	return out
}
