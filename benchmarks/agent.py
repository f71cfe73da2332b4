"""What an agent costs: at rest, for a pod that is admitted, and how soon that is published.

    python -m benchmarks.agent [--seconds 120] [--pods 10 100 250 1000] [--admitted 20]

The kubelet of the tests, a node whose kubelet is the engine, and an API server are in this process, the agent
is in one of its own.  A node has 2 sockets with 64 cores of two threads and 8 GPUs.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.kube.agents import FAKES as DEVICES
from tests.kube.agents import GPU, NIC, Agent, agent, node
from tests.kube.kubelet import Kubelet
from tests.kube.noded import CONFIG, NodeOnDisk, node_on_disk, pod
from tests.kube.server import State, kubeconfig, serving

from numawise.sets import format_ids, ids_of

CALLS = 300
CORES, GPUS, WITH_CPUS = 64, 8, 120
"""The first so many pods have a CPU of their own."""
LONGEST, AT_REST = 60.0, 15.0
MOST_PODS = 1500


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def at_rest(pid: int, seconds: float) -> str:
    """CPU, memory and threads of a process that has nothing to do."""
    started, begin = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    share = (cpu_seconds(pid) - started) / (time.monotonic() - begin)
    return f"{share:.2%} of a core, {status(pid, 'VmRSS') / 1000:.0f} MB, {status(pid, 'Threads')} threads"


def reference() -> float:
    """CPU of a Python that does nothing, in seconds: what other figures of a run can be divided by."""
    costs = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return sorted(costs)[len(costs) // 2]


# --- the device plugin ----------------------------------------------------------------------------


async def device_plugin(folder: Path, running: Agent, seconds: float) -> None:
    kubelet = Kubelet(folder / "device-plugins")
    await kubelet.start()
    everything = tuple((await kubelet.knows(GPU)).devices)
    await kubelet.knows(NIC)
    pid = running.process.pid
    print(f"device plugin, idle for {seconds:.0f} s: {await asyncio.to_thread(at_rest, pid, seconds)}")
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


# --- a node ---------------------------------------------------------------------------------------


class Observed:
    """An agent with its node and its API server."""

    def __init__(self, state: State, machine: NodeOnDisk, process: "subprocess.Popen[bytes]") -> None:
        self.state, self.machine, self.process = state, machine, process

    def admit(self, number: int) -> dict[str, Any]:
        """A pod comes, as the kubelet and the API server know it."""
        value = pod(f"pod-{number}", 1 if number < WITH_CPUS else "10m", memory="16Mi")
        if not self.machine.admit(value, write=False):
            raise RuntimeError(f"pod {number} was refused")
        self.group(value["metadata"]["uid"], value["metadata"]["name"])
        return value

    def group(self, uid: str, name: str) -> None:
        """The control group of a pod's container, as a kubelet leaves it, and the link to its log."""
        state = self.machine.node.state
        cpus = state.cpu.assignments.get(uid, {}).get("c", 0) or state.cpu.shared
        blocks = state.memory.assignments.get(uid, {}).get("c", ())
        mems = ids_of(blocks[0].numa) if blocks else (0, 1)
        id_ = hashlib.sha256(uid.encode()).hexdigest()
        place = self.machine.root / "sys/fs/cgroup/kubepods" / f"pod{uid}" / id_
        place.mkdir(parents=True)
        for file, text in (("cpuset.cpus", format_ids(cpus)), ("cpuset.mems", ",".join(map(str, mems)))):
            (place / file).write_text(f"{text}\n")
            (place / f"{file}.effective").write_text(f"{text}\n")
        pages = " ".join(f"N{numa}={1 << 20 if numa in mems else 0}" for numa in (0, 1))
        (place / "memory.numa_stat").write_text(f"anon {pages}\nfile N0=0 N1=0\n")
        links = self.machine.root / "var/log/containers"
        links.mkdir(parents=True, exist_ok=True)
        (links / f"{name}_default_c-{id_}.log").symlink_to(f"/var/log/pods/default_{name}_{uid}/c/0.log")

    def until(self, versions: int) -> float:
        """When so many versions of the object have been published."""
        end = time.monotonic() + LONGEST
        with self.state.changed:
            while self.count() < versions:
                if time.monotonic() > end:
                    raise TimeoutError(f"version {versions} of the object did not come")
                self.state.changed.wait(0.005)
        return time.monotonic()

    def count(self) -> int:
        return sum(
            method == "PATCH" and "noderesourcetopologies" in path for method, path, _ in self.state.written
        )


@contextlib.contextmanager
def observed(pods: int, features: Sequence[str]) -> Iterator[Observed]:
    """An agent on a node with so many pods, all of which it has published."""
    state = State()
    with (
        node_on_disk({**CONFIG, "maxPods": MOST_PODS}, cores=CORES, devices=GPUS) as machine,
        machine.listening(),
        serving(state) as server,
    ):
        state.put_node(
            {
                "kind": "Node",
                "metadata": {"name": "n1", "uid": "u-n1"},
                "spec": {},
                "status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}, "conditions": []},
            }
        )
        groups = machine.root / "sys/fs/cgroup"
        groups.mkdir(parents=True)
        (groups / "cgroup.controllers").write_text("cpuset memory\n")
        seen = Observed(state, machine, None)  # type: ignore[arg-type]
        for number in range(pods):
            state.put_pod(seen.admit(number))
        machine.write()
        fakes = machine.folder / "fakes.yaml"
        fakes.write_text(DEVICES)
        words = [f"--{feature}" for feature in features]
        words += ["--fake", str(fakes)] if "device-plugin" in features else []
        words += [
            "--node",
            "n1",
            "--kubeconfig",
            str(kubeconfig(machine.folder / "kubeconfig", server.address)),
        ]
        words += [
            "--kubelet-dir",
            str(machine.folder),
            "--root",
            str(machine.root),
            "--listen",
            "127.0.0.1:0",
        ]
        words += ["--kubelet-config", str(machine.folder / "config.yaml")]
        log = machine.folder / "log"
        with log.open("ab") as stream:
            seen.process = subprocess.Popen(
                [sys.executable, "-m", "numawise", "agent", *words], stderr=stream
            )
        try:
            seen.until(1)
            time.sleep(2)  # whatever the start brings about
            yield seen
        except BaseException:
            print(log.read_text()[-2000:], file=sys.stderr)
            raise
        finally:
            seen.process.terminate()
            seen.process.wait()


def size(state: State) -> int:
    """Bytes of the published object, as JSON."""
    return len(json.dumps(state.topologies["n1"], separators=(",", ":")).encode())


def admitted(pods: int, features: Sequence[str], times: int) -> tuple[float, float, float, int, int]:
    """CPU of a pod that comes beyond that of an agent at rest, how soon it is published, size, memory."""
    with observed(pods, features) as seen:
        pid = seen.process.pid
        delays = []
        started = cpu_seconds(pid)
        time.sleep(AT_REST)
        at_rest_share = (cpu_seconds(pid) - started) / AT_REST
        started, since = cpu_seconds(pid), time.monotonic()
        for number in range(pods, pods + times):
            before = seen.count()
            value = seen.admit(number)
            begin = time.monotonic()
            seen.state.put_pod(value)
            seen.machine.write()
            delays.append(seen.until(before + 1) - begin)
            time.sleep(1.0)  # pods come one at a time; what follows from this one counts as its own
        rest = at_rest_share * (time.monotonic() - since)
        cost = (cpu_seconds(pid) - started - rest) / times
        delays.sort()
        return cost, delays[len(delays) // 2], delays[-1], size(seen.state), status(pid, "VmRSS")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="how long an idle agent is looked at")
    parser.add_argument("--pods", type=int, nargs="*", default=[10, 100, 250, 1000])
    parser.add_argument("--admitted", type=int, default=20, help="pods that come, one after the other")
    parser.add_argument("--features", nargs="*", default=["device-plugin", "export", "watch"])
    given = parser.parse_args()
    with node() as folder:
        fakes = folder / "fakes.yaml"
        fakes.write_text(DEVICES)
        with agent(folder, "--fake", str(fakes)) as running:
            asyncio.run(device_plugin(folder, running, given.seconds))
    middle = given.pods[len(given.pods) // 2] if given.pods else 100
    with observed(middle, given.features) as seen:
        print(
            f"{', '.join(given.features)}; {middle} pods, idle for {given.seconds:.0f} s: "
            f"{at_rest(seen.process.pid, given.seconds)}"
        )
    nothing = reference()
    print(f"python -c pass: {nothing * 1000:.1f} ms of CPU")
    print("pods   CPU of one that comes   published after: middle, worst   object   memory")
    for pods in given.pods:
        cost, middle_delay, worst, length, memory = admitted(pods, given.features, given.admitted)
        print(
            f"{pods:4d}   {cost * 1000:8.1f} ms, {cost / nothing:4.1f} times   "
            f"{middle_delay:20.2f} s {worst:6.2f} s   "
            f"{length / 1000:4.1f} kB  {memory / 1000:4.0f} MB"
        )


if __name__ == "__main__":
    main()
