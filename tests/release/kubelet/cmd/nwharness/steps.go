package main

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
)

// play runs the steps; a refused start or a panic ends the scenario.
func (n *node) play(steps []map[string]json.RawMessage) (result J) {
	played := []J{}
	start := J{}
	op := ""
	defer func() {
		if e := recover(); e != nil {
			result = J{"start": start, "steps": append(played, J{"op": op, "panic": fmt.Sprint(e)})}
		}
	}()
	n.ready = true
	if refusal := n.start(); refusal != nil {
		return J{"error": n.refusal(refusal)}
	}
	n.register()
	start = J{
		"reserved_cpus":                cpumanager.HarnessReserved(n.cpu).String(),
		"node_allocatable_reservation": quantities(n.settings.reservation),
		"state":                        n.state(),
	}
	if n.settings.config.CPUManagerPolicy == "static" {
		start["allocatable_cpus"] = n.cpu.GetAllocatableCPUs().String()
	}
	for _, step := range steps {
		for name, raw := range step {
			op = name
			if n.all && n.publishes {
				n.kubelet.publish()
			}
			out := J{"op": op}
			if !n.step(op, raw, &out) {
				return J{"start": start, "steps": append(played, out)}
			}
			if n.all {
				n.kubelet.report(out)
			}
			out["state"] = n.state()
			played = append(played, out)
		}
	}
	return J{"start": start, "steps": played}
}

func (n *node) step(op string, raw json.RawMessage, out *J) bool {
	switch op {
	case "add":
		pod := podOf(raw)
		one, ok := n.admit(pod, "add")
		*out = one
		if ok {
			n.drop(pod.UID)
			n.active = append(n.active, pod)
			one["runtime"] = n.run(pod)
		}
		if n.all {
			n.kubelet.added([]*v1.Pod{pod}, ok)
		}
	case "remove":
		var uid string
		read(raw, &uid)
		(*out)["uid"] = uid
		n.forget(uid)
		if n.all {
			n.kubelet.removed(uid)
		}
	case "reconcile":
		n.pushes = nil
		cpumanager.HarnessReconcile(n.cpu)
		if len(n.pushes) > 0 {
			(*out)["runtime_updates"] = n.pushes
		}
	case "devices":
		lists := map[string][]Device{}
		read(raw, &lists)
		for _, name := range sorted(lists) {
			plugin := n.plugins[name]
			plugin.Devices = lists[name]
			n.plugins[name] = plugin
			n.devices.HarnessDevices(name, deviceList(lists[name]))
		}
	case "restart":
		return n.restart(raw, out)
	case "resize":
		var resize Resize
		read(raw, &resize)
		(*out)["uid"] = resize.Uid
		n.kubelet.resize(resize)
	case "retry":
		n.kubelet.retry("periodic_retry")
	default:
		panic("unknown step " + op)
	}
	return true
}

func (n *node) restart(raw json.RawMessage, out *J) bool {
	var change struct {
		Kubelet map[string]any
		Machine *Machine
		Node    *NodeSpec
		Plugins string
	}
	read(raw, &change)
	if change.Machine != nil {
		n.machine = *change.Machine
		n.plug(n.machine)
	}
	if change.Kubelet != nil {
		n.fields = change.Kubelet
	}
	if change.Node != nil {
		n.spec = change.Node
	}
	if n.all {
		n.kubelet.publish()
	}
	n.ready = false
	if refusal := n.start(); refusal != nil {
		(*out)["error"] = n.refusal(refusal)
		return false
	}
	if change.Plugins != "after-pods" {
		n.register()
	}
	readmitted := []J{}
	live := append([]*v1.Pod{}, n.active...)
	n.active = nil // a kubelet that starts hears of its pods one after the other
	for _, pod := range live {
		one, ok := n.admit(pod, "readmit")
		readmitted = append(readmitted, one)
		if ok {
			n.active = append(n.active, pod)
		} else {
			delete(n.started, string(pod.UID))
		}
	}
	if n.all {
		n.kubelet.added(live, true)
	}
	if change.Plugins == "after-pods" {
		n.register()
	}
	n.ready = true
	if n.all {
		n.kubelet.cleanUp()
	}
	(*out)["readmitted"] = readmitted
	return true
}

func read(raw json.RawMessage, into any) {
	if err := json.Unmarshal(raw, into); err != nil {
		panic(err)
	}
}

// refusal names the state files as they are named on a node.
func (n *node) refusal(refusal *stageError) J {
	return J{"stage": refusal.stage, "message": strings.ReplaceAll(refusal.message, n.dir, "/var/lib/kubelet")}
}
