"""What a machine means for those who run jobs on it."""
