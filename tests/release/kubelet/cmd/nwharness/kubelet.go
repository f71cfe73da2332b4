package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/nodestatus"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/preemption"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/kubelet/sysctl"
	"k8s.io/kubernetes/pkg/nwcall"
	"k8s.io/kubernetes/pkg/security/apparmor"

	cadvisorapi "github.com/google/cadvisor/info/v1"
)

// kubelet is what admits pods in a kubelet: the allocation manager with its handlers, the status
// manager with the conditions of resizes, and the pods as the API server has them.
type kubelet struct {
	node        *node
	pods        kubepod.Manager
	status      status.Manager
	allocation  allocation.Manager
	nodeSetter  func(*v1.Node)
	original    map[types.UID]*v1.Pod
	preempted   []string
	evaluations []J
}

// containerManager answers what the allocation manager asks of the container manager.
type containerManager struct {
	cm.ContainerManager
	config   cm.NodeConfig
	capacity v1.ResourceList
}

func (c *containerManager) GetNodeConfig() cm.NodeConfig { return c.config }
func (c *containerManager) GetNodeAllocatableAbsolute() v1.ResourceList {
	return cm.HarnessAllocatable(c.config, c.capacity)
}

func newKubelet(n *node) *kubelet {
	k := &kubelet{node: n, original: map[types.UID]*v1.Pod{}}
	if n.kubelet != nil {
		k.original = n.kubelet.original
		k.preempted, k.evaluations = n.kubelet.preempted, n.kubelet.evaluations
	}
	k.pods = nwcall.Func(kubepod.NewBasicPodManager)[0].(kubepod.Manager)
	k.status = nwcall.Func(status.NewManager, nil, k.pods, nil, nil)[0].(status.Manager)
	config := n.settings.config
	containers := &containerManager{config: n.settings.nodeConfig, capacity: n.settings.capacity}
	recorder := &record.FakeRecorder{}
	k.allocation = nwcall.Func(allocation.NewManager, n.dir, containers, containers.config, containers.GetNodeAllocatableAbsolute(),
		k.status, func(*v1.Pod) {}, n.pods, k.pods.GetPodByUID, n, recorder)[0].(allocation.Manager)
	runtime := kuberuntime.HarnessRuntime(config.MemorySwap.SwapBehavior, n.spec.Swap)
	if nwcall.Has(k.allocation, "SetContainerRuntime") {
		nwcall.Method(k.allocation, "SetContainerRuntime", runtime)
	}
	sysctls := append(nwcall.Func(sysctl.SafeSysctlAllowlist)[0].([]string), config.AllowedUnsafeSysctls...)
	allowlist, err := sysctl.NewAllowlist(sysctls)
	if err != nil {
		panic(err)
	}
	critical := nwcall.Func(preemption.NewCriticalPodAdmissionHandler, k.allocatedPods, k.kill, recorder)[0].(lifecycle.AdmissionFailureHandler)
	predicates := nwcall.Func(lifecycle.NewPredicateAdmitHandler, k.object, func() (*v1.Node, error) { return k.object(true) }, critical, n.devices.UpdatePluginResources)[0].(lifecycle.PodAdmitHandler)
	handlers := resizeHandlers(containers, runtime, k.allocation)
	handlers = append(handlers,
		eviction.HarnessAdmitHandler(n.spec.Conditions),
		allowlist,
		n.topology,
		predicates,
		lifecycle.NewAppArmorAdmitHandler(apparmor.NewValidator()),
		lifecycle.NewPodFeaturesAdmitHandler(),
	)
	k.allocation.AddPodAdmitHandlers(handlers)
	k.nodeSetter = k.machineSetter()
	return k
}

// machineSetter is the part of the node's status that comes from the machine and the plugins.
func (k *kubelet) machineSetter() func(*v1.Node) {
	n := k.node
	info := n.info()
	config := n.settings.config
	setter := nwcall.Func(nodestatus.MachineInfo, "node", int(config.MaxPods), int(config.PodsPerCore),
		func() (*cadvisorapi.MachineInfo, error) { return info, nil },
		func(bool) v1.ResourceList { return v1.ResourceList{} },
		func() (v1.ResourceList, v1.ResourceList, []string) {
			out := nwcall.Method(n.devices, "GetCapacity")
			return out[0].(v1.ResourceList), out[1].(v1.ResourceList), out[2].([]string)
		},
		func() v1.ResourceList { return n.settings.reservation },
		func(string, string, string) {},
		func() *bool { return nil },
		false)[0].(nodestatus.Setter)
	return func(object *v1.Node) {
		if err := setter(context.Background(), object); err != nil {
			panic(err)
		}
	}
}

// object is the Node as the predicates see it.
func (k *kubelet) object(bool) (*v1.Node, error) {
	spec := k.node.spec
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{}}}
	for name, value := range spec.Labels {
		object.Labels[name] = value
	}
	object.Spec.Taints, object.Spec.Unschedulable = spec.Taints, spec.Unschedulable
	k.nodeSetter(object)
	fill := func(list v1.ResourceList, given map[string]string) {
		for name, text := range given {
			list[v1.ResourceName(name)] = resource.MustParse(text)
		}
	}
	fill(object.Status.Capacity, spec.Capacity)
	fill(object.Status.Allocatable, spec.Allocatable)
	return object, nil
}

func resizable() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.InPlacePodVerticalScaling)
}

// allocatedPods are the active pods as the preemption of critical pods sees them.
func (k *kubelet) allocatedPods() []*v1.Pod {
	var out []*v1.Pod
	if nwcall.Has(k.allocation, "GetAllocatedPods") {
		out = nwcall.Method(k.allocation, "GetAllocatedPods")[0].([]*v1.Pod)
	} else {
		for _, pod := range k.node.pods() {
			if resizable() {
				pod, _ = k.allocation.UpdatePodFromAllocation(pod)
			}
			out = append(out, pod)
		}
	}
	// A kubelet keeps its pods in a map: which of equal pods comes first is chance.
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// kill ends a pod for a critical one; it is deleted from the API server at once.
func (k *kubelet) kill(pod *v1.Pod) error {
	k.preempted = append(k.preempted, string(pod.UID))
	k.node.forget(string(pod.UID))
	k.pods.RemovePod(pod)
	delete(k.original, pod.UID)
	nwcall.Method(k.allocation, "RemovePod", pod.UID)
	return nil
}

func (k *kubelet) admit(pod *v1.Pod) (bool, string, string) {
	if _, ok := k.original[pod.UID]; !ok {
		k.original[pod.UID] = pod.DeepCopy()
	}
	k.pods.AddPod(pod)
	out := nwcall.Method(k.allocation, "AddPod", k.node.pods(), pod)
	return out[0].(bool), out[1].(string), out[2].(string)
}

// added is what follows when pods were admitted: resizes found waiting are queued and tried.
func (k *kubelet) added(pods []*v1.Pod, ok bool) {
	if !ok || !resizable() {
		return
	}
	k.status.BackfillPodResizeConditions(pods)
	waiting := false
	for _, pod := range pods {
		if _, differs := k.allocation.UpdatePodFromAllocation(pod); differs && k.isActive(pod.UID) {
			nwcall.Method(k.allocation, "PushPendingResize", pod.UID)
			waiting = true
		}
	}
	if waiting {
		k.retry("pods_added")
	}
}

func (k *kubelet) isActive(uid types.UID) bool {
	for _, pod := range k.node.active {
		if pod.UID == uid {
			return true
		}
	}
	return false
}

func (k *kubelet) removed(uid string) {
	if pod, ok := k.pods.GetPodByUID(types.UID(uid)); ok {
		k.pods.RemovePod(pod)
	}
	delete(k.original, types.UID(uid))
	nwcall.Method(k.allocation, "RemovePod", types.UID(uid))
	if resizable() {
		k.retry("pods_removed")
	}
}

// cleanUp is what the kubelet's housekeeping does about allocations of pods that are gone.
func (k *kubelet) cleanUp() {
	remaining := sets.New[types.UID]()
	for _, pod := range k.pods.GetPods() {
		remaining.Insert(pod.UID)
	}
	k.allocation.RemoveOrphanedPods(remaining)
}

// Resize is a step that changes the resources of a pod.
type Resize struct {
	Uid        string
	Containers map[string]Resources
	Resources  *Resources
}

// Resources are the changed quantities; null takes one away.
type Resources struct {
	Requests, Limits map[string]*string
}

func (r Resources) applyTo(requirements *v1.ResourceRequirements) {
	apply := func(list *v1.ResourceList, given map[string]*string) {
		for name, text := range given {
			if text == nil {
				delete(*list, v1.ResourceName(name))
				continue
			}
			if *list == nil {
				*list = v1.ResourceList{}
			}
			(*list)[v1.ResourceName(name)] = resource.MustParse(*text)
		}
	}
	apply(&requirements.Requests, r.Requests)
	apply(&requirements.Limits, r.Limits)
}

// resize changes the pod's spec as the API server does, and tells the kubelet of the update.
func (k *kubelet) resize(change Resize) {
	old, ok := k.pods.GetPodByUID(types.UID(change.Uid))
	if !ok || !k.isActive(types.UID(change.Uid)) {
		return
	}
	pod := old.DeepCopy()
	pod.Generation++
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if resources, ok := change.Containers[containers[i].Name]; ok {
				resources.applyTo(&containers[i].Resources)
			}
		}
	}
	if change.Resources != nil {
		if pod.Spec.Resources == nil {
			pod.Spec.Resources = &v1.ResourceRequirements{}
		}
		change.Resources.applyTo(pod.Spec.Resources)
	}
	k.pods.UpdatePod(pod)
	for i := range k.node.active {
		if k.node.active[i].UID == pod.UID {
			k.node.active[i] = pod
		}
	}
	if !resizable() || !k.differs(old, pod) {
		return
	}
	if nwcall.Has(k.allocation, "HasPodAllocatedResources") && !nwcall.Method(k.allocation, "HasPodAllocatedResources", pod.UID)[0].(bool) {
		return
	}
	if _, differs := k.allocation.UpdatePodFromAllocation(pod); differs {
		nwcall.Method(k.allocation, "PushPendingResize", pod.UID)
		k.retry("pod_updated")
	} else {
		nwcall.Method(k.status, "ClearPodResizePendingCondition", pod.UID, "reverted")
		k.evaluations = append(k.evaluations, J{"uid": change.Uid, "outcome": "unchanged"})
	}
}

func (k *kubelet) differs(old, pod *v1.Pod) bool {
	before, after := containersOf(old), containersOf(pod)
	for i := range before {
		if !apiequality.Semantic.DeepEqual(before[i].Resources, after[i].Resources) {
			return true
		}
	}
	return nwcall.Has(k.allocation, "GetPodLevelResourceAllocation") && !apiequality.Semantic.DeepEqual(old.Spec.Resources, pod.Spec.Resources)
}

// retry tries the queued resizes and notes what became of each, in order.
func (k *kubelet) retry(trigger string) {
	if !k.node.ready {
		nwcall.Method(k.allocation, "RetryPendingResizes", trigger)
		return
	}
	pending := allocation.HarnessPending(k.allocation)
	unchanged := map[types.UID]bool{}
	for _, uid := range pending {
		if pod, ok := k.pods.GetPodByUID(uid); ok {
			_, differs := k.allocation.UpdatePodFromAllocation(pod)
			unchanged[uid] = !differs
		}
	}
	nwcall.Method(k.allocation, "RetryPendingResizes", trigger)
	for _, uid := range pending {
		pod, ok := k.pods.GetPodByUID(uid)
		if !ok {
			continue
		}
		one := J{"uid": string(uid)}
		_, differs := k.allocation.UpdatePodFromAllocation(pod)
		switch {
		case unchanged[uid]:
			one["outcome"] = "unchanged"
		case k.status.IsPodResizeDeferred(uid):
			one["outcome"] = "deferred"
		case k.status.IsPodResizeInfeasible(uid):
			one["outcome"] = "infeasible"
		case differs:
			one["outcome"] = "other"
		default:
			one["outcome"] = "allocated"
		}
		for _, condition := range k.status.GetPodResizeConditions(uid) {
			if condition.Type == v1.PodResizePending {
				one["reason"], one["message"] = condition.Reason, condition.Message
			}
		}
		k.evaluations = append(k.evaluations, one)
	}
	k.refresh()
}

// publish writes what the kubelet reports into the pods' status: conditions of resizes, and what containers
// have.  From there a restarted kubelet and the predicates read it.
func (k *kubelet) publish() {
	for i, pod := range k.node.active {
		pod = pod.DeepCopy()
		pod.Status.Conditions = nil
		for _, condition := range k.status.GetPodResizeConditions(pod.UID) {
			pod.Status.Conditions = append(pod.Status.Conditions, *condition)
		}
		allocated, _ := k.allocation.UpdatePodFromAllocation(pod)
		pod.Status.InitContainerStatuses = k.statuses(pod, allocated.Spec.InitContainers)
		pod.Status.ContainerStatuses = k.statuses(pod, allocated.Spec.Containers)
		k.node.active[i] = pod
		k.pods.UpdatePod(pod)
	}
}

// refresh brings what was published up to date: amounts as they are allocated, conditions gone that no longer hold.
func (k *kubelet) refresh() {
	for i, pod := range k.node.active {
		if len(pod.Status.ContainerStatuses) == 0 {
			continue
		}
		pod = pod.DeepCopy()
		holding := map[v1.PodConditionType]bool{}
		for _, condition := range k.status.GetPodResizeConditions(pod.UID) {
			holding[condition.Type] = true
		}
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return !holding[c.Type] })
		allocated, _ := k.allocation.UpdatePodFromAllocation(pod)
		pod.Status.InitContainerStatuses = k.statuses(pod, allocated.Spec.InitContainers)
		pod.Status.ContainerStatuses = k.statuses(pod, allocated.Spec.Containers)
		k.node.active[i] = pod
		k.pods.UpdatePod(pod)
	}
}

func (k *kubelet) statuses(pod *v1.Pod, containers []v1.Container) (out []v1.ContainerStatus) {
	for _, container := range containers {
		if _, started := k.node.started[string(pod.UID)][container.Name]; started {
			resources := container.Resources.DeepCopy()
			out = append(out, v1.ContainerStatus{Name: container.Name, AllocatedResources: resources.Requests, Resources: resources})
		}
	}
	return
}

// report moves what happened in a step into its result.
func (k *kubelet) report(out J) {
	if len(k.preempted) > 0 {
		out["preempted"] = k.preempted
	}
	if len(k.evaluations) > 0 {
		out["resizes"] = k.evaluations
	}
	k.preempted, k.evaluations = nil, nil
}

// allocated lists the pods whose allocation differs from what they came with.
func (k *kubelet) allocated() J {
	out := J{}
	for uid, original := range k.original {
		pod, differs := k.allocation.UpdatePodFromAllocation(original)
		if !differs {
			continue
		}
		one := J{}
		before, after := containersOf(original), containersOf(pod)
		for i := range after {
			if !apiequality.Semantic.DeepEqual(before[i].Resources, after[i].Resources) {
				one[after[i].Name] = requirements(&after[i].Resources)
			}
		}
		if !apiequality.Semantic.DeepEqual(original.Spec.Resources, pod.Spec.Resources) {
			one[""] = requirements(pod.Spec.Resources)
		}
		out[string(uid)] = one
	}
	return out
}

func requirements(resources *v1.ResourceRequirements) J {
	text, err := json.Marshal(resources)
	if err != nil {
		panic(fmt.Sprint(err))
	}
	out := J{}
	read(text, &out)
	return out
}
