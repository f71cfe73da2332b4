"""The durable record of who holds what on this machine."""
