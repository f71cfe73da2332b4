package topologymanager

// HarnessRound is told of one round: what each provider answered, in their order, and what came of it.
type HarnessRound func(answers []map[string][]TopologyHint, best TopologyHint, admit bool)

// observed is a policy that tells of each round.
type observed struct {
	Policy
	tell HarnessRound
}

// HarnessObserve has each round told of.
func HarnessObserve(m Manager, tell HarnessRound) {
	switch scope := m.(*manager).scope.(type) {
	case *containerScope:
		scope.policy = &observed{scope.policy, tell}
	case *podScope:
		scope.policy = &observed{scope.policy, tell}
	}
}
