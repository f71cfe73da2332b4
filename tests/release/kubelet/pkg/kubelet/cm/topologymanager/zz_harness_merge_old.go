//go:build merge_without_logger

package topologymanager

func (o *observed) Merge(answers []map[string][]TopologyHint) (TopologyHint, bool) {
	best, admit := o.Policy.Merge(answers)
	o.tell(answers, best, admit)
	return best, admit
}
