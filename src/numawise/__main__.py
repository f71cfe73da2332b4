"""Run ``python -m numawise``."""

import sys

from numawise.cli.main import main

sys.exit(main())
