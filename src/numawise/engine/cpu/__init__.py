"""The CPU Manager's part: hints and allocation."""
