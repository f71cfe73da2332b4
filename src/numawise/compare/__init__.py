"""The same node under two releases: what differs, and which change of the release causes it."""
