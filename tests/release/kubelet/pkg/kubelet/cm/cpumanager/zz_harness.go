package cpumanager

import (
	"k8s.io/kubernetes/pkg/nwcall"
	"k8s.io/utils/cpuset"
)

// HarnessReconcile runs one pass of the reconcile loop.
func HarnessReconcile(m Manager) {
	impl := m.(*manager)
	if impl.policy.Name() != string(PolicyNone) {
		nwcall.Func(impl.reconcileState)
	}
}

// HarnessReserved are the CPUs that the static policy keeps back.
func HarnessReserved(m Manager) cpuset.CPUSet {
	if policy, ok := m.(*manager).policy.(*staticPolicy); ok {
		return policy.reservedCPUs
	}
	return cpuset.New()
}
