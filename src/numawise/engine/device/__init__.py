"""The Device Manager's part: hints and allocation."""
