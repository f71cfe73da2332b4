"""What every test starts with: nothing of the caller's terminal or of earlier jobs in the environment."""

import os

for name in [name for name in os.environ if name.startswith("NUMAWISE_") or name in ("COLUMNS", "LINES")]:
    del os.environ[name]  # pytest-xdist sets COLUMNS, too
