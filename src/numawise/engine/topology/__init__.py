"""The Topology Manager: how hints become one affinity, and whether it is accepted."""
