"""The one engine: machine, rules, state and request in; a decision and the new state out."""
