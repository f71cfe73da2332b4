"""What comes out of every question, as values."""
