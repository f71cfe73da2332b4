package main

import (
	"os"
	"reflect"
	"sort"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/nwcall"
)

func quantities(list v1.ResourceList) J {
	out := J{}
	for name, quantity := range list {
		out[string(name)] = quantity.String()
	}
	return out
}

func (n *node) state() J {
	out := J{"cpu": n.cpuState(), "devices": n.deviceState()}
	if n.settings.config.MemoryManagerPolicy == "Static" {
		out["memory"] = n.memoryState()
	}
	if n.all {
		if allocated := n.kubelet.allocated(); len(allocated) > 0 {
			out["allocated"] = allocated
		}
	}
	if n.files {
		files := J{}
		for _, name := range []string{"cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint", "allocated_pods_state"} {
			if text, err := os.ReadFile(n.dir + "/" + name); err == nil && n.shown[name] != string(text) {
				files[name] = string(text)
				n.shown[name] = string(text)
			}
		}
		out["checkpoints"] = files
	}
	return out
}

func (n *node) cpuState() J {
	books := n.cpu.State()
	assignments := J{}
	for uid, containers := range books.GetCPUAssignments() {
		one := J{}
		for name, cpus := range containers {
			one[name] = cpus.String()
		}
		assignments[uid] = one
	}
	out := J{"default": books.GetDefaultCPUSet().String(), "assignments": assignments}
	if pods := podLevel(books, "GetPodCPUAssignments"); len(pods) > 0 {
		out["pods"] = pods
	}
	return out
}

// podLevel lists pod-level allocations, where the release has them: a map by uid of a struct or set.
func podLevel(books any, method string) J {
	out := J{}
	if !nwcall.Has(books, method) {
		return out
	}
	values := reflect.ValueOf(nwcall.Method(books, method)[0])
	for _, key := range values.MapKeys() {
		value := values.MapIndex(key)
		if value.Kind() == reflect.Struct {
			if field := value.FieldByName("CPUSet"); field.IsValid() {
				value = field
			}
		}
		switch held := value.Interface().(type) {
		case []state.Block:
			out[key.String()] = blocks(held)
		case interface{ String() string }:
			out[key.String()] = held.String()
		default:
			if field := value.FieldByName("Blocks"); field.IsValid() {
				out[key.String()] = blocks(field.Interface().([]state.Block))
			} else if field := value.FieldByName("MemoryBlocks"); field.IsValid() {
				out[key.String()] = blocks(field.Interface().([]state.Block))
			}
		}
	}
	return out
}

func blocks(held []state.Block) []J {
	out := []J{}
	for _, block := range held {
		out = append(out, J{"numa": block.NUMAAffinity, "type": string(block.Type), "size": block.Size})
	}
	sort.Slice(out, func(i, j int) bool { return out[i]["type"].(string) < out[j]["type"].(string) })
	return out
}

func (n *node) memoryState() J {
	books := nwcall.Method(n.memory, "State")[0].(state.Reader)
	assignments := J{}
	for uid, containers := range books.GetMemoryAssignments() {
		one := J{}
		for name, held := range containers {
			one[name] = blocks(held)
		}
		assignments[uid] = one
	}
	free := J{}
	for id, numa := range books.GetMachineState() {
		one := J{}
		for kind, table := range numa.MemoryMap {
			one[string(kind)] = table.Free
		}
		free[strconv.Itoa(id)] = one
	}
	out := J{"assignments": assignments, "free": free}
	if pods := podLevel(books, "GetPodMemoryAssignments"); len(pods) > 0 {
		out["pods"] = pods
	}
	return out
}

func (n *node) deviceState() J {
	out := J{}
	for uid, containers := range n.devices.HarnessState() {
		pod := J{}
		for name, resources := range containers {
			one := J{}
			for resource, byNuma := range resources {
				ids := sets.New[string]()
				counts := J{}
				for id, devices := range byNuma {
					ids.Insert(devices...)
					key := strconv.FormatInt(id, 10)
					if id == -1 {
						key = "none"
					}
					counts[key] = len(devices)
				}
				one[resource] = J{"ids": sets.List(ids), "per_numa": counts}
			}
			pod[name] = one
		}
		out[uid] = pod
	}
	return out
}
