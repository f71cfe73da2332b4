package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

const listed = 300 // longer lists are given by number and digest

var providers = []string{"device", "cpu", "memory"}

// round keeps one round of hints for the step's result.
func (n *node) round(answers []map[string][]topologymanager.TopologyHint, best topologymanager.TopologyHint, admit bool) {
	hints := J{}
	for i, answer := range answers {
		if answer == nil {
			hints[providers[i]] = nil
			continue
		}
		one := J{}
		for resource, list := range answer {
			one[resource] = hintList(list)
		}
		hints[providers[i]] = one
	}
	merged := affinityOf(best)
	merged["admit"] = admit
	n.rounds = append(n.rounds, J{"hints": hints, "merged": merged})
}

func affinityOf(hint topologymanager.TopologyHint) J {
	out := J{"numa": nil, "preferred": hint.Preferred}
	if hint.NUMANodeAffinity != nil {
		out["numa"] = hint.NUMANodeAffinity.GetBits()
	}
	return out
}

func hintList(list []topologymanager.TopologyHint) any {
	if list == nil {
		return nil
	}
	hints := [][2]any{}
	preferred := 0
	for _, hint := range list {
		hints = append(hints, [2]any{affinityOf(hint)["numa"], hint.Preferred})
		if hint.Preferred {
			preferred++
		}
	}
	if len(hints) <= listed {
		return hints
	}
	text, err := json.Marshal(hints)
	if err != nil {
		panic(err)
	}
	digest := sha256.Sum256(text)
	return J{"count": len(hints), "preferred": preferred, "sha256": hex.EncodeToString(digest[:]), "first": hints[:8]}
}
