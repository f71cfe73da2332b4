"""The page and its API: a face of everything below, as the command line is another."""

EXTRA = "numawise[web]"
"""What has to be installed for it."""
