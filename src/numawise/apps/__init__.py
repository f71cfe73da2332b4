"""What people do with the engine: the same call with other sources and effects."""
