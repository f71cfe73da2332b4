"""A kubelet's directory, and devices that do not exist."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.agents import FAKES, node


@pytest.fixture
def folder() -> Iterator[Path]:
    with node() as made:
        yield made


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    path = tmp_path / "fakes.yaml"
    path.write_text(FAKES)
    return path
