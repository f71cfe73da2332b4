"""The watcher on real NUMA nodes: a made-up tree of pods with real processes, cpusets and pages."""

import asyncio
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from numawise.apps.agent.drift_reports import DriftReports
from numawise.apps.agent.watching import PAGES_EVERY, Watcher, WatchPlan
from numawise.host.discover import read_live
from numawise.service.log import ServiceLog
from numawise.sets import format_ids, ids_of
from tests.vm.guest import CGROUP, Guest
from tests.vm.scopes import control
from tests.vm.verifying import SIZE, two_nodes
from tests.waiting import until
from tests.watched import RealGroups, WatchedNode, container_id, uid

FILLS = (
    "import sys, time; from numawise.host import mempolicy\n"
    "mempolicy.bind_memory(int(sys.argv[1])); kept = bytearray(b'x' * int(sys.argv[2]))\n"
    "mempolicy.set_mempolicy(mempolicy.DEFAULT); print('ready', flush=True); time.sleep(10000)"
)


class Sent:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    async def event(self, about: Mapping[str, str], *, kind: str, reason: str, message: str) -> bool:
        assert kind
        self.events.append((about["name"], reason, message))
        return True

    def reasons(self, pod: str) -> list[str]:
        return [reason for name, reason, _ in self.events if name == pod]


class Scene:
    """Pod ``a`` on node 0 with memory bound there, ``b`` on node 1 with CPUs alone, ``s`` in the pool."""

    def __init__(self, guest: Guest, groups: RealGroups, folder: Path, *, repair: bool) -> None:
        here, there = two_nodes(guest)
        first = here & -here
        self.own, self.pool = format_ids(here & ~first), format_ids(first)
        self.other, self.every = format_ids(there), format_ids(here | there)
        self.groups, self.sent, self.stream, self.now = groups, Sent(), io.StringIO(), 0.0
        self.node = WatchedNode(folder, read_live(), self.pool)
        self.node.add("a", self.own, "0")
        self.node.add("b", self.other)
        self.node.add("s")
        groups.put("a", self.own, "0")
        groups.put("b", self.other, "0-1")
        groups.put("s", self.pool, "0-1")
        log = ServiceLog(self.stream, structured=True)
        reports = DriftReports(log, self.sent, self.clock)
        plan = WatchPlan(str(self.node.kubelet_dir), repair=repair)
        self.watcher = Watcher(plan, self.node, log, reports, self.clock)
        asyncio.run(self.watcher.start())

    def clock(self) -> float:
        return self.now

    def fill(self, pod: str, numa: int) -> None:
        """A process with memory on a NUMA node, and no policy afterwards."""
        self.groups.run(pod, sys.executable, "-c", FILLS, str(1 << numa), str(SIZE))

    def look(self, *times: float) -> None:
        async def looking() -> None:
            for seconds in times:
                self.now += seconds
                await self.watcher.look()
                await self.watcher.reports.drain()

        asyncio.run(looking())

    def own_pages(self, pod: str) -> dict[int, int]:
        assert self.watcher.checker is not None
        groups = self.watcher.checker.groups
        places = groups.find([(check.grant.uid, check.id) for check in self.watcher.checks])
        pages = groups.pages(places[container_id(pod)])
        assert pages is not None
        return dict(pages.own)


@contextmanager
def scene(guest: Guest, *, repair: bool = False) -> Iterator[Scene]:
    two_nodes(guest)
    with tempfile.TemporaryDirectory() as folder, RealGroups("numawise-watch") as groups:
        yield Scene(guest, groups, Path(folder), repair=repair)


def remote_pages(guest: Guest) -> str:
    """Pages really on a foreign node are reported; local ones are not."""
    with scene(guest) as made:
        made.fill("a", 0)
        made.fill("b", 0)
        made.look(0, PAGES_EVERY)
        assert made.sent.reasons("a") == [], made.sent.events
        assert made.sent.reasons("b") == ["MemoryRemote"], made.sent.events
        assert made.own_pages("b")[0] >= SIZE
        return made.sent.events[0][2]


def cpusets(guest: Guest) -> str:
    """Changed cpusets are reported and left; with repair they are written back, and pages follow in version 2."""
    with scene(guest) as made:
        made.fill("a", 0)
        made.groups.file("a", "cpus").write_text(made.every)
        made.groups.file("s", "cpus").write_text(made.every)
        made.look(0, 3, 10)
        assert made.sent.reasons("a") == ["CpusetChanged"], made.sent.events
        assert made.sent.reasons("s") == ["CpusetChanged"], made.sent.events
        assert made.groups.file("a", "cpus").read_text().strip() == made.every
    with scene(guest, repair=True) as made:
        made.groups.file("a", "mems").write_text("0-1")
        made.groups.file("a", "cpus").write_text(made.every)
        made.fill("a", 1)
        made.look(0)
        before = made.own_pages("a")
        assert before[1] >= SIZE, before
        made.look(3)
        assert made.groups.file("a", "cpus").read_text().strip() == made.own
        assert made.groups.file("a", "mems").read_text().strip() == "0"
        after = made.own_pages("a")
        moved = after.get(1, 0) < SIZE / 2
        said = next(message for _, reason, message in made.sent.events if reason == "CpusetRepaired")
        assert moved is ("the kernel moves pages there by itself" in said), (said, before, after)
        made.look(3)
        lines = [json.loads(line)["message"] for line in made.stream.getvalue().splitlines()]
        assert any("no longer" in line for line in lines), lines
        return f"{said}\n{before} became {after}"


def reloaded(guest: Guest) -> str:
    """A container in a scope of systemd's: a reload writes AllowedCPUs= over its cpuset, and it is written back."""
    every = guest.all_cpus
    own = format_ids(1 << max(ids_of(every)))
    unit, slice_ = (
        f"cri-containerd-{container_id('a')}.scope",
        f"kubepods-pod{uid('a').replace('-', '_')}.slice",
    )
    options = [
        "--scope",
        f"--slice={slice_}",
        f"--unit={unit}",
        "-p",
        "Delegate=yes",
        "-p",
        f"AllowedCPUs={format_ids(every)}",
    ]
    process = subprocess.Popen(["systemd-run", "--quiet", *options, "sleep", "10000"])
    file = CGROUP / "kubepods.slice" / slice_ / unit / "cpuset.cpus"
    sent, stream, times = Sent(), io.StringIO(), iter(range(0, 1000, 3))
    try:
        until(file.exists, f"{unit} is there")
        with tempfile.TemporaryDirectory() as folder:
            node = WatchedNode(Path(folder), read_live(), format_ids(every & ~(1 << max(ids_of(every)))))
            node.add("a", own)
            log = ServiceLog(stream, structured=True)

            def clock() -> float:
                return float(next(times))

            plan = WatchPlan(str(node.kubelet_dir), repair=True)
            watcher = Watcher(plan, node, log, DriftReports(log, sent, clock), clock)

            async def look(count: int) -> None:
                for _ in range(count):
                    await watcher.look()
                    await watcher.reports.drain()

            asyncio.run(watcher.start())
            file.write_text(own)  # as the runtime does for the kubelet
            asyncio.run(look(2))
            assert sent.events == [], sent.events
            control("daemon-reload")
            until(lambda: file.read_text().strip() == format_ids(every), "systemd wrote its own")
            asyncio.run(look(2))
            assert sent.reasons("a") == ["CpusetChanged", "CpusetRepaired"], sent.events
            assert file.read_text().strip() == own
            return "\n".join(message for _, _, message in sent.events)
    finally:
        process.kill()
        process.wait()
        control("stop", slice_)
