//go:build !merge_without_logger

package topologymanager

import "k8s.io/klog/v2"

func (o *observed) Merge(logger klog.Logger, answers []map[string][]TopologyHint) (TopologyHint, bool) {
	best, admit := o.Policy.Merge(logger, answers)
	o.tell(answers, best, admit)
	return best, admit
}
