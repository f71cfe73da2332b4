package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/util/codec"
	"k8s.io/kubernetes/pkg/nwcall"
	"k8s.io/utils/cpuset"
)

// stageError says which stage of the start refused.
type stageError struct {
	stage, message string
}

func (e *stageError) Error() string { return e.stage + ": " + e.message }

func refused(stage string, err error) *stageError { return &stageError{stage, err.Error()} }

// settings are the decoded configuration with what the kubelet derives from it.
type settings struct {
	config      *kubeletconfig.KubeletConfiguration
	reserved    cpuset.CPUSet
	nodeConfig  cm.NodeConfig
	capacity    v1.ResourceList
	reservation v1.ResourceList
}

// resetGates puts every gate back to its default.
func resetGates() {
	gate := utilfeature.DefaultMutableFeatureGate
	defaults := map[string]bool{}
	for name, spec := range gate.GetAll() {
		if !spec.LockToDefault && gate.Enabled(name) != spec.Default {
			defaults[string(name)] = spec.Default
		}
	}
	if len(defaults) > 0 {
		if err := gate.SetFromMap(defaults); err != nil {
			panic(err)
		}
	}
}

func decode(fields map[string]any) (config *kubeletconfig.KubeletConfiguration, refusal *stageError) {
	defer func() {
		if e := recover(); e != nil {
			config, refusal = nil, &stageError{"decode-config-panic", fmt.Sprint(e)}
		}
	}()
	document := J{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	for name, value := range fields {
		document[name] = value
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, refused("decode-config", err)
	}
	_, codecs, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, refused("decode-config", err)
	}
	out := nwcall.Func(codec.DecodeKubeletConfiguration, codecs, text)
	if err := nwcall.Error(out); err != nil {
		return nil, refused("decode-config", err)
	}
	config = out[0].(*kubeletconfig.KubeletConfiguration)
	if config.EvictionHard == nil {
		config.EvictionHard = maps.Clone(eviction.DefaultEvictionHard)
	} else if config.MergeDefaultEvictionSettings {
		for name, value := range eviction.DefaultEvictionHard {
			if _, given := config.EvictionHard[name]; !given {
				config.EvictionHard[name] = value
			}
		}
	}
	return config, nil
}

// configure reads the configuration as the kubelet's command does before it makes the managers.
func configure(fields map[string]any, info *cadvisorapi.MachineInfo) (*settings, *stageError) {
	resetGates()
	config, refusal := decode(fields)
	if refusal != nil {
		return nil, refusal
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return nil, refused("feature-gates", err)
	}
	config.FailCgroupV1 = false // says nothing of the scenario: the machine that runs it may have either version
	if err := validation.ValidateKubeletConfiguration(config, utilfeature.DefaultFeatureGate); err != nil {
		return nil, refused("validate-config", err)
	}
	out := &settings{config: config, capacity: cadvisor.CapacityFromMachineInfo(info)}
	var err error
	if out.reserved, err = reservedCPUs(info, config.ReservedSystemCPUs); err != nil {
		return nil, refused("reserved-cpus", err)
	}
	if out.reserved.Size() > 0 {
		delete(config.KubeReserved, "cpu")
		if config.SystemReserved == nil {
			config.SystemReserved = map[string]string{}
		}
		config.SystemReserved["cpu"] = strconv.Itoa(out.reserved.Size())
	}
	kubeReserved, err := reservations(config.KubeReserved)
	if err != nil {
		return nil, refused("kube-reserved", fmt.Errorf("--kube-reserved value failed to parse: %w", err))
	}
	systemReserved, err := reservations(config.SystemReserved)
	if err != nil {
		return nil, refused("system-reserved", fmt.Errorf("--system-reserved value failed to parse: %w", err))
	}
	thresholds, err := eviction.ParseThresholdConfig([]string{}, config.EvictionHard, nil, nil, nil)
	if err != nil {
		return nil, refused("eviction-hard", err)
	}
	out.nodeConfig = cm.NodeConfig{
		CPUManagerPolicy:    config.CPUManagerPolicy,
		MemoryManagerPolicy: config.MemoryManagerPolicy,
		NodeAllocatableConfig: cm.NodeAllocatableConfig{
			KubeReserved: kubeReserved, SystemReserved: systemReserved, HardEvictionThresholds: thresholds,
			ReservedSystemCPUs: out.reserved,
		},
	}
	out.reservation = cm.HarnessReservation(out.nodeConfig, out.capacity)
	return out, nil
}

func reservedCPUs(info *cadvisorapi.MachineInfo, list string) (cpuset.CPUSet, error) {
	if list == "" {
		return cpuset.New(), nil
	}
	out := nwcall.Func(topology.Discover, info)
	if err := nwcall.Error(out); err != nil {
		return cpuset.New(), fmt.Errorf("unable to discover CPU topology info: %s", err)
	}
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return cpuset.New(), fmt.Errorf("unable to parse reserved-cpus list: %s", err)
	}
	online := out[0].(*topology.CPUTopology).CPUDetails.CPUs()
	if !cpus.IsSubsetOf(online) {
		return cpuset.New(), fmt.Errorf("reserved-cpus: %s is not a subset of online-cpus: %s", list, online)
	}
	return cpus, nil
}

func reservations(given map[string]string) (v1.ResourceList, error) {
	out := v1.ResourceList{}
	for name, text := range given {
		switch name {
		case "cpu", "memory", "ephemeral-storage", "pid":
		default:
			return nil, fmt.Errorf("cannot reserve %q resource", name)
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("failed to parse quantity %q for %q resource: %w", text, name, err)
		}
		if quantity.Sign() == -1 {
			return nil, fmt.Errorf("resource quantity for %q cannot be negative: %v", name, text)
		}
		out[v1.ResourceName(name)] = quantity
	}
	return out, nil
}
