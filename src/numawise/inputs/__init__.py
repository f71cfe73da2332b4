"""The one way in: what people name on the command line or in Python, read into values."""
