"""Each feature of the agent does its work with the mounts and rights that its manifest has, and no others."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.kube.agents import FAKES, GPU, NIC, node
from tests.kube.confined import ConfinedAgent, confined
from tests.kube.kubelet import Kubelet, pairs


def _mounts() -> list[str]:
    file = Path("/proc/self/mountinfo")
    return file.read_text().splitlines() if file.exists() else []


WALLS = pytest.mark.skipif(
    shutil.which("setpriv") is None or not any(line.split()[4] == "/" for line in _mounts()),
    reason="there is no setpriv, or / is no mount, as in a chroot",
)
NO_RIGHTS = {"CapEff": "0" * 16, "CapPrm": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}


@pytest.fixture
def real() -> Iterator[Path]:
    """The kubelet's folder as the host has it."""
    with node() as made:
        (made / "pod-resources").mkdir()
        (made / "cpu_manager_state").write_text("{}")
        yield made


@pytest.fixture
def shown() -> Iterator[Path]:
    """The kubelet's folder as the container has it."""
    with node() as made:
        yield made


@needs.MOUNTS
@needs.PROC
@WALLS
def test_the_device_plugin(real: Path, shown: Path, tmp_path: Path) -> None:
    fakes = tmp_path / "fakes.yaml"
    fakes.write_text(FAKES)

    async def scenario(running: ConfinedAgent) -> None:
        kubelet = Kubelet(real / "device-plugins")
        await kubelet.start()
        await kubelet.knows(GPU)
        await kubelet.knows(NIC)
        assert running.rights() == NO_RIGHTS
        inside = Path(f"/proc/{running.process.pid}/root")
        assert not (inside / str(shown)[1:] / "cpu_manager_state").exists()  # of the host's folder no more
        (given,) = await kubelet.allocate(GPU, ("gpu3",))
        assert pairs(given, 1) == {"EXAMPLE_COM_GPU": "gpu3"}
        await kubelet.restart()  # which removes the agent's sockets
        await kubelet.knows(GPU)
        await kubelet.knows(NIC)
        await kubelet.until(lambda: running.page("/readyz") == (200, "ok\n"), "it is ready")
        assert await asyncio.to_thread(running.end) == 0
        assert not (kubelet.folder / "numawise-example.com_gpu.sock").exists()
        await kubelet.stop()

    with confined(real, shown, ["device-plugin"], "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))
