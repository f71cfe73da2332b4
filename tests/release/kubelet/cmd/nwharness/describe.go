package main

import (
	"encoding/json"
	"reflect"
	"sort"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	configv1beta1 "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// describe is what a table of this release must say: gates and defaults.
func describe() J {
	gates := J{}
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		gates[string(name)] = J{"default": spec.Default, "stage": string(spec.PreRelease), "locked": spec.LockToDefault}
	}
	config := &kubeletv1beta1.KubeletConfiguration{}
	configv1beta1.SetDefaults_KubeletConfiguration(config)
	text, err := json.Marshal(config)
	if err != nil {
		panic(err)
	}
	defaults := J{}
	read(text, &defaults)
	return J{
		"gates": gates, "defaults": defaults, "fields": fieldsOf(config),
		"cpu_options": cpumanager.HarnessOptions(), "topology_options": topologymanager.HarnessOptions(),
	}
}

// fieldsOf lists the names of the fields of a configuration object.
func fieldsOf(object any) []string {
	var names []string
	kind := reflect.TypeOf(object).Elem()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if name != "" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}
