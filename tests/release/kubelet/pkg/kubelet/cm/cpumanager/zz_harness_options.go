package cpumanager

import "sort"

// HarnessOptions lists the policy options by how settled they are.
func HarnessOptions() map[string][]string {
	levels := map[string][]string{
		"Alpha":  alphaOptions.UnsortedList(),
		"Beta":   betaOptions.UnsortedList(),
		"Stable": stableOptions.UnsortedList(),
	}
	for _, names := range levels {
		sort.Strings(names)
	}
	return levels
}
