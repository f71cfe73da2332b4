"""A kubelet's log explained: admissions out of events, grouped by owner, each with its cause."""
