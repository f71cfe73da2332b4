"""Files and wire formats to values, and back."""
