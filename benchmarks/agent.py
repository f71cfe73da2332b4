"""What an agent costs that waits: memory, CPU, one allocation; and how soon it is back after a restart.

    python -m benchmarks.agent [--seconds 120]

A kubelet of the tests is in this process, the agent in one of its own, with eight made-up GPUs.
"""

import argparse
import asyncio
import os
import time
from pathlib import Path

from tests.kube.agents import FAKES as DEVICES
from tests.kube.agents import GPU, NIC, Agent, agent, node
from tests.kube.kubelet import Kubelet

CALLS = 300


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


async def measure(folder: Path, running: Agent, seconds: float) -> None:
    kubelet = Kubelet(folder / "device-plugins")
    await kubelet.start()
    everything = tuple((await kubelet.knows(GPU)).devices)
    await kubelet.knows(NIC)
    pid = running.process.pid
    started = cpu_seconds(pid)
    begin = time.monotonic()
    await asyncio.sleep(seconds)
    share = (cpu_seconds(pid) - started) / (time.monotonic() - begin)
    print(f"idle for {seconds:.0f} s: {share:.2%} of a core, {status(pid, 'VmRSS') >> 10} MiB, "
          f"{status(pid, 'Threads')} threads")  # fmt: skip
    started = cpu_seconds(pid)
    for _ in range(CALLS):
        chosen = await kubelet.prefer(GPU, everything, 2)
        await kubelet.allocate(GPU, tuple(chosen))
    print(f"one pod, preferred and allocated: {(cpu_seconds(pid) - started) / CALLS * 1000:.2f} ms of CPU")
    times = []
    for _ in range(5):
        await kubelet.restart()
        begin = time.monotonic()
        await kubelet.knows(GPU)
        await kubelet.knows(NIC)
        times.append(time.monotonic() - begin)
    print(f"watched again after a restart of the kubelet: {min(times):.2f} to {max(times):.2f} s")
    await kubelet.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    with node() as folder:
        fakes = folder / "fakes.yaml"
        fakes.write_text(DEVICES)
        with agent(folder, "--fake", str(fakes)) as running:
            asyncio.run(measure(folder, running, given.seconds))


if __name__ == "__main__":
    main()
