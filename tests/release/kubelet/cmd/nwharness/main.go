// Command nwharness runs scenarios through the managers of the release it is built with.
//
// One scenario of JSON per line on standard input, one result per line on standard output.
// With -describe it prints the gates, policy options and configuration defaults of the release.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// J is an object of JSON.
type J = map[string]any

// Cpu is one logical CPU of the machine.
type Cpu struct {
	Cpu, Core, Socket, Numa int
	Uncore                  *int `json:"uncore_cache"`
}

// Numa is one NUMA node of the machine.
type Numa struct {
	Id        int
	Memory    uint64
	Hugepages map[string]uint64
	Distances []uint64
}

// Device is one device of a plugin.
type Device struct {
	Id        string
	Numa      *[]int64
	Unhealthy bool
}

// Plugin is a device plugin with its devices.
type Plugin struct {
	Devices   []Device
	Preferred string `json:"preferred_allocation"`
}

// Machine is the hardware.
type Machine struct {
	Cpus     []Cpu
	Numa     []Numa
	Devices  map[string]Plugin
	Capacity uint64 `json:"memory_capacity"`
}

// NodeSpec is what is known of the Node object besides its machine.
type NodeSpec struct {
	Labels        map[string]string
	Taints        []v1.Taint
	Allocatable   map[string]string
	Capacity      map[string]string
	Unschedulable bool
	Conditions    []v1.NodeConditionType
	Swap          bool
}

// Scenario is one line of the input.
type Scenario struct {
	Id        string
	Admission string
	Files     bool
	Hints     bool
	Publish   bool
	State     map[string]string
	Machine   Machine
	Kubelet   map[string]any
	Node      *NodeSpec
	Steps     []map[string]json.RawMessage
}

func main() {
	describing := flag.Bool("describe", false, "print gates, options and defaults of this release")
	flag.Parse()
	quiet := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(quiet)
	if err := quiet.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL", "-log_file=/dev/null"}); err != nil {
		panic(err)
	}
	klog.SetOutput(io.Discard)
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	utilruntime.PanicHandlers = nil
	if *describing {
		if err := json.NewEncoder(os.Stdout).Encode(describe()); err != nil {
			panic(err)
		}
		return
	}
	decoder := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	out := bufio.NewWriter(os.Stdout)
	for {
		var scenario Scenario
		err := decoder.Decode(&scenario)
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "nwharness: scenario cannot be read:", err)
			os.Exit(2)
		}
		line, err := json.Marshal(J{"id": scenario.Id, "result": play(scenario)})
		if err != nil {
			panic(err)
		}
		out.Write(line)
		out.WriteByte('\n')
		out.Flush()
	}
}

func play(scenario Scenario) J {
	dir, err := os.MkdirTemp("", "nwharness")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range scenario.State {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	node := newNode(dir, scenario)
	return node.play(scenario.Steps)
}
