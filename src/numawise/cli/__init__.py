"""The command line."""

import gc

gc.set_threshold(50_000, 20, 50)  # a start makes objects that stay; looking for garbage among them costs 6 ms
