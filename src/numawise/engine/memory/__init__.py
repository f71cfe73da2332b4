"""The Memory Manager's part: hints and allocation."""
