package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	apiv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/nwcall"
)

// node is one kubelet: its managers, its pods and what runs.
type node struct {
	dir       string
	files     bool
	hints     bool
	publishes bool
	all       bool
	machine   Machine
	fields    map[string]any
	spec      *NodeSpec
	settings  *settings
	plugins   map[string]Plugin

	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
	devices  *devicemanager.ManagerImpl
	kubelet  *kubelet

	active    []*v1.Pod
	admitting *v1.Pod
	ready     bool
	started   map[string]map[string]string // uid -> container -> "running" or "terminated"
	ids       map[string]string            // uid/container -> container id
	next      int
	pushes    []J
	rounds    []J
	shown     map[string]string
}

func newNode(dir string, scenario Scenario) *node {
	n := &node{
		dir: dir, files: scenario.Files, hints: scenario.Hints, publishes: scenario.Publish, all: scenario.Admission == "all",
		machine: scenario.Machine, fields: scenario.Kubelet, spec: scenario.Node,
		started: map[string]map[string]string{}, ids: map[string]string{}, shown: map[string]string{},
	}
	if n.spec == nil {
		n.spec = &NodeSpec{}
	}
	n.plug(scenario.Machine)
	return n
}

func (n *node) plug(machine Machine) {
	n.plugins = map[string]Plugin{}
	for name, plugin := range machine.Devices {
		n.plugins[name] = plugin
	}
}

// AllReady is asked before stale state is removed.  The loop that the CPU Manager starts by itself
// ends here: reconcile passes run in steps alone.
func (n *node) AllReady() bool {
	var callers [24]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "cpumanager.(*manager).Start.") {
			runtime.Goexit()
		}
		if !more {
			return n.ready
		}
	}
}

func (n *node) AddSource(string) {}

// pods are the active pods; the pod under admission is one of them.
func (n *node) pods() []*v1.Pod {
	out := append([]*v1.Pod{}, n.active...)
	if n.admitting != nil {
		for _, pod := range out {
			if pod.UID == n.admitting.UID {
				return out
			}
		}
		out = append(out, n.admitting)
	}
	return out
}

func containersOf(pod *v1.Pod) []v1.Container {
	return append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
}

// GetPodStatus is what the reconcile pass reads.
func (n *node) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	var status v1.PodStatus
	for _, pod := range n.active {
		if pod.UID != uid {
			continue
		}
		statuses := func(containers []v1.Container) (out []v1.ContainerStatus) {
			for _, container := range containers {
				state, ok := n.started[string(uid)][container.Name]
				if !ok {
					continue
				}
				one := v1.ContainerStatus{Name: container.Name, ContainerID: "x://" + n.ids[string(uid)+"/"+container.Name]}
				if state == "running" {
					one.State.Running = &v1.ContainerStateRunning{}
				} else {
					one.State.Terminated = &v1.ContainerStateTerminated{}
				}
				out = append(out, one)
			}
			return
		}
		status.InitContainerStatuses = statuses(pod.Spec.InitContainers)
		status.ContainerStatuses = statuses(pod.Spec.Containers)
		return status, true
	}
	return status, false
}

// UpdateContainerResources is a push to the container runtime.
func (n *node) UpdateContainerResources(_ context.Context, id string, resources *runtimeapi.ContainerResources) error {
	for _, pod := range n.active {
		for _, container := range containersOf(pod) {
			if n.ids[string(pod.UID)+"/"+container.Name] == id {
				n.pushes = append(n.pushes, J{"pod": string(pod.UID), "container": container.Name, "cpuset_cpus": resources.Linux.CpusetCpus})
			}
		}
	}
	return nil
}

func (n *node) info() *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{NumCores: len(n.machine.Cpus)}
	sockets := sets.New[int]()
	pages := map[uint64]uint64{}
	for _, numa := range n.machine.Numa {
		one := cadvisorapi.Node{Id: numa.Id, Memory: numa.Memory, Distances: numa.Distances}
		info.MemoryCapacity += numa.Memory
		for _, size := range sets.List(sets.KeySet(numa.Hugepages)) {
			quantity := resource.MustParse(size)
			kib := uint64(quantity.Value() / 1024)
			one.HugePages = append(one.HugePages, cadvisorapi.HugePagesInfo{PageSize: kib, NumPages: numa.Hugepages[size]})
			pages[kib] += numa.Hugepages[size]
		}
		cores := map[[2]int]int{}
		for _, cpu := range n.machine.Cpus {
			if cpu.Numa != numa.Id {
				continue
			}
			sockets.Insert(cpu.Socket)
			key := [2]int{cpu.Socket, cpu.Core}
			i, ok := cores[key]
			if !ok {
				i = len(one.Cores)
				cores[key] = i
				core := cadvisorapi.Core{Id: cpu.Core, SocketID: cpu.Socket}
				if cpu.Uncore != nil {
					core.UncoreCaches = []cadvisorapi.Cache{{Id: *cpu.Uncore}}
				}
				one.Cores = append(one.Cores, core)
			}
			one.Cores[i].Threads = append(one.Cores[i].Threads, cpu.Cpu)
		}
		info.Topology = append(info.Topology, one)
	}
	for _, kib := range sets.List(sets.KeySet(pages)) {
		info.HugePages = append(info.HugePages, cadvisorapi.HugePagesInfo{PageSize: kib, NumPages: pages[kib]})
	}
	if n.machine.Capacity != 0 {
		info.MemoryCapacity = n.machine.Capacity
	}
	info.NumSockets = sockets.Len()
	return info
}

// start makes the managers in the order of the container manager, and starts them.
func (n *node) start() *stageError {
	info := n.info()
	var refusal *stageError
	if n.settings, refusal = configure(n.fields, info); refusal != nil {
		return refusal
	}
	config := n.settings.config
	out := nwcall.Func(topologymanager.NewManager, info.Topology, config.TopologyManagerPolicy, config.TopologyManagerScope, config.TopologyManagerPolicyOptions)
	if err := nwcall.Error(out); err != nil {
		return refused("topology-manager", err)
	}
	n.topology = out[0].(topologymanager.Manager)
	if n.hints {
		topologymanager.HarnessObserve(n.topology, n.round)
	}
	var err error
	if n.devices, err = devicemanager.HarnessNew(n.dir, info.Topology, n.topology); err != nil {
		return refused("device-manager", err)
	}
	nwcall.Method(n.topology, "AddHintProvider", n.devices)
	out = nwcall.Func(cpumanager.NewManager, config.CPUManagerPolicy, config.CPUManagerPolicyOptions, 1000*time.Hour, info, n.settings.reserved, n.settings.reservation, n.dir, n.topology)
	if err := nwcall.Error(out); err != nil {
		return refused("cpu-manager", err)
	}
	n.cpu = out[0].(cpumanager.Manager)
	nwcall.Method(n.topology, "AddHintProvider", n.cpu)
	out = nwcall.Func(memorymanager.NewManager, config.MemoryManagerPolicy, info, n.settings.reservation, config.ReservedMemory, n.dir, n.topology)
	if err := nwcall.Error(out); err != nil {
		return refused("memory-manager", err)
	}
	n.memory = out[0].(memorymanager.Manager)
	nwcall.Method(n.topology, "AddHintProvider", n.memory)
	containers := containermap.NewContainerMap()
	running := sets.New[string]()
	for _, pod := range n.active {
		uid := string(pod.UID)
		for name, state := range n.started[uid] {
			containers.Add(uid, name, n.ids[uid+"/"+name])
			if state == "running" {
				running.Insert(n.ids[uid+"/"+name])
			}
		}
	}
	if err := nwcall.Error(nwcall.Method(n.cpu, "Start", cpumanager.ActivePodsFunc(n.pods), n, n, n, containers.Clone())); err != nil {
		return &stageError{"cpu-manager-start", "start cpu manager error: " + err.Error()}
	}
	if err := nwcall.Error(nwcall.Method(n.memory, "Start", memorymanager.ActivePodsFunc(n.pods), n, n, n, containers.Clone())); err != nil {
		return &stageError{"memory-manager-start", "start memory manager error: " + err.Error()}
	}
	n.devices.HarnessStart(n.pods, n, containers.Clone(), running)
	if n.all {
		n.kubelet = newKubelet(n)
	}
	return nil
}

func deviceList(devices []Device) (out []*pluginapi.Device) {
	for _, device := range devices {
		one := &pluginapi.Device{ID: device.Id, Health: pluginapi.Healthy}
		if device.Unhealthy {
			one.Health = pluginapi.Unhealthy
		}
		if device.Numa != nil {
			one.Topology = &pluginapi.TopologyInfo{}
			for _, id := range *device.Numa {
				one.Topology.Nodes = append(one.Topology.Nodes, &pluginapi.NUMANode{ID: id})
			}
		}
		out = append(out, one)
	}
	return
}

func (n *node) register() {
	for _, name := range sets.List(sets.KeySet(n.plugins)) {
		plugin := n.plugins[name]
		n.devices.HarnessPlugin(name, plugin.Preferred == "lowest-ids", deviceList(plugin.Devices))
	}
}

func (n *node) admit(pod *v1.Pod, op string) (J, bool) {
	n.admitting = pod
	n.rounds = nil
	var ok bool
	var reason, message string
	if n.all {
		ok, reason, message = n.kubelet.admit(pod)
	} else {
		result := nwcall.Method(n.topology, "Admit", attributes(pod))[0].(lifecycle.PodAdmitResult)
		ok, reason, message = result.Admit, result.Reason, result.Message
	}
	n.admitting = nil
	out := J{"op": op, "uid": string(pod.UID), "qos": string(pod.Status.QOSClass), "admitted": ok}
	if len(n.rounds) > 0 {
		out["hint_rounds"] = n.rounds
	}
	if !ok {
		out["reason"], out["message"] = reason, message
		return out, false
	}
	if affinity := n.affinity(pod); len(affinity) > 0 {
		out["affinity"] = affinity
	}
	return out, true
}

// attributes of an admission; releases that tell operations apart are told that it is no resize.
func attributes(pod *v1.Pod) *lifecycle.PodAdmitAttributes {
	out := &lifecycle.PodAdmitAttributes{Pod: pod}
	if operation := reflect.ValueOf(out).Elem().FieldByName("Operation"); operation.IsValid() {
		operation.SetString("add")
	}
	return out
}

func (n *node) affinity(pod *v1.Pod) J {
	out := J{}
	for _, container := range containersOf(pod) {
		hint := nwcall.Method(n.topology, "GetAffinity", string(pod.UID), container.Name)[0].(topologymanager.TopologyHint)
		if hint.NUMANodeAffinity != nil || hint.Preferred {
			out[container.Name] = affinityOf(hint)
		}
	}
	return out
}

// run starts the containers in order; init containers finish at once, sidecars keep running.
func (n *node) run(pod *v1.Pod) []J {
	var out []J
	uid := string(pod.UID)
	n.started[uid] = map[string]string{}
	begin := func(container *v1.Container, state string) bool {
		if err := nwcall.Error(nwcall.Method(n.devices, "GetDeviceRunContainerOptions", pod, container)); err != nil {
			out = append(out, J{"pod": uid, "container": container.Name, "start_error": err.Error()})
			return false
		}
		one := J{"pod": uid, "container": container.Name, "cpuset_cpus": n.cpu.GetCPUAffinity(uid, container.Name).String()}
		nodes := nwcall.Method(n.memory, "GetMemoryNUMANodes", pod, container)[0].(sets.Set[int])
		if nodes.Len() > 0 {
			one["cpuset_mems"] = strings.Trim(strings.ReplaceAll(fmt.Sprint(sets.List(nodes)), " ", ","), "[]")
		}
		n.next++
		id := fmt.Sprintf("c%d", n.next)
		n.ids[uid+"/"+container.Name] = id
		nwcall.Method(n.cpu, "AddContainer", pod, container, id)
		nwcall.Method(n.memory, "AddContainer", pod, container, id)
		nwcall.Method(n.topology, "AddContainer", pod, container, id)
		n.started[uid][container.Name] = state
		out = append(out, one)
		return true
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		state := "terminated"
		if container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways {
			state = "running"
		}
		if !begin(container, state) {
			return out
		}
	}
	for i := range pod.Spec.Containers {
		begin(&pod.Spec.Containers[i], "running")
	}
	return out
}

// forget takes a pod out of the active ones; stopped containers are told to the Topology Manager.
func (n *node) forget(uid string) {
	for i, pod := range n.active {
		if string(pod.UID) != uid {
			continue
		}
		names := sets.List(sets.KeySet(n.started[uid]))
		for _, name := range names {
			nwcall.Method(n.topology, "RemoveContainer", n.ids[uid+"/"+name])
		}
		delete(n.started, uid)
		n.active = append(n.active[:i:i], n.active[i+1:]...)
		return
	}
}

func (n *node) drop(uid types.UID) {
	for i, pod := range n.active {
		if pod.UID == uid {
			n.active = append(n.active[:i:i], n.active[i+1:]...)
			return
		}
	}
}

func podOf(raw json.RawMessage) *v1.Pod {
	pod := &v1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		panic(err)
	}
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	withGate("PodLevelResourcesFixDefaulting", false, func() { apiv1.SetObjectDefaults_Pod(pod) })
	pod.Status.QOSClass = qos.GetPodQOS(pod)
	return pod
}

// withGate does something while a gate, where the release has it, is set.  A gate of the API server defers
// pod-level defaults until a pod is stored.
func withGate(name string, value bool, do func()) {
	gate := utilfeature.DefaultMutableFeatureGate
	spec, known := gate.GetAll()[featuregate.Feature(name)]
	if !known || spec.LockToDefault {
		do()
		return
	}
	before := gate.Enabled(featuregate.Feature(name))
	set := func(value bool) {
		if err := gate.SetFromMap(map[string]bool{name: value}); err != nil {
			panic(err)
		}
	}
	set(value)
	do()
	set(before)
}

func sorted[V any](values map[string]V) []string {
	var names []string
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
