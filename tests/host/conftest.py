"""What tests of the launcher start from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host.launching import Host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A ledger of its own, with all CPUs to give."""
    made = Host(tmp_path, NUMAWISE_RESERVED_CPUS="none")
    yield made
    made.end()
