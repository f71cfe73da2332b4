package allocation

import "k8s.io/apimachinery/pkg/types"

// HarnessPending lists the queued resizes in the order in which they are tried next.
func HarnessPending(m Manager) []types.UID {
	impl := m.(*manager)
	impl.allocationMutex.Lock()
	defer impl.allocationMutex.Unlock()
	return append([]types.UID{}, impl.podsWithPendingResizes...)
}
