"""How fast a kubelet's log is read, and in how much memory: ``python -m benchmarks.logs``.

    python -m benchmarks.logs [--size MB] [--json FILE]

Writes a made-up journal (by default 1,024 MB) into a temporary folder, reads it as ``why --log`` would,
and removes it.  Printed are MB per second of wall time and of CPU time, and the peak memory of the process
that reads, for an eighth of the size and for all of it: memory must not grow with the log.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from numawise.apps.logs.groups import LogFilter
from numawise.apps.logs.read import Source, read_log

GOAL = 50.0
"""MB per second."""
CYCLES = 24_000
"""Lines of one chunk, about 5 MB."""
NOISE = (
    'kubelet.go:2402] "SyncLoop RECONCILE" source="api" pods=["shop/web-{n}"]',
    'kubelet.go:2437] "SyncLoop (PLEG): event for pod" pod="shop/web-{n}" event={{"ID":"{uid}"}}',
    'generic.go:224] "GenericPLEG: Relisting"',
    'config.go:105] "Looking for sources, have seen" sources=["api"] seenSources={{"api":{{}},"file":{{}}}}',
    'kuberuntime_manager.go:436] "Retrieved pods from runtime" all=true',
    'volume_manager.go:451] "Waiting for volumes to unmount for pod" pod="shop/web-{n}"',
    'status_manager.go:227] "Syncing updated statuses"',
    'pod_workers.go:1232] "Processing pod event" pod="shop/web-{n}" podUID="{uid}" updateType="sync"',
    'eviction_manager.go:292] "Eviction manager: no resources are starved"',
    'prober.go:107] "Probe succeeded" probeType="Readiness" pod="shop/web-{n}" podUID="{uid}"',
    'cpu_manager.go:472] "ReconcileState: updating container" pod="shop/web-{n}" containerID="{uid}"',
)
WHO = 'pod="shop/store-7" containerName="main"'
CPU = '[{{"NUMANodeAffinity":2,"Preferred":true}},{{"NUMANodeAffinity":3,"Preferred":false}}]'
MEMORY = '[{{"NUMANodeAffinity":1,"Preferred":true}}]'
NOTHING = '{{"NUMANodeAffinity":null,"Preferred":false}}'
WORDS = 'reason="TopologyAffinityError" message="Resources cannot be allocated with Topology locality"'
REJECTION = (
    'topology_manager.go:215] "Topology Admit Handler" podUID="{uid}" podNamespace="shop" podName="store-7"',
    f'scope_container.go:75] "TopologyHints" hints={{{{}}}} {WHO}',
    f'scope_container.go:75] "TopologyHints" hints={{{{"cpu":{CPU}}}}} {WHO}',
    f'scope_container.go:75] "TopologyHints" hints={{{{"memory":{MEMORY}}}}} {WHO}',
    f'scope_container.go:83] "ContainerTopologyHint" bestHint={NOTHING}',
    f'scope_container.go:50] "Best TopologyHint" bestHint={NOTHING} {WHO}',
    f'event.go:307] "Event occurred" object="shop/store-7" kind="Pod" apiVersion="v1" type="Warning" {WORDS}',
)
EVERY = 400
"""Lines from one rejection to the next: such a pod is made anew every few seconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """One reading."""

    megabytes: float
    lines: int
    rejected: int
    wall: float
    """MB per second."""
    cpu: float
    """MB per second of CPU time."""
    peak: float
    """MB of memory at most."""


def chunk() -> str:
    """Some thousand lines, the day of which is ``{day}``."""
    lines = []
    for number in range(CYCLES):
        seconds = number * 86400 // CYCLES
        stamp = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        uid = f"{number:08x}-0000-4000-8000-{number:012x}"
        some = REJECTION if number % EVERY == 0 else (NOISE[number % len(NOISE)],)
        for text in some:
            body = text.format(n=number % 97, uid=uid)
            lines.append(
                f"Aug @@ {stamp} node7 kubelet[1021]: I08@@ {stamp}.{number % 1000:06}    1021 {body}\n"
            )
    return "".join(lines)


def write(path: Path, size: int) -> None:
    """A journal of about so many bytes."""
    text = chunk()
    with path.open("wb") as file:
        day = 0
        while file.tell() < size:
            file.write(text.replace("@@", f"{day % 28 + 1:02}").encode())
            day += 1


def read(path: str) -> Row:
    """Read a log in this process."""
    begin, cpu = time.perf_counter(), time.process_time()
    report = read_log(Source([path]), LogFilter())
    wall, spent = time.perf_counter() - begin, time.process_time() - cpu
    size = report.reading.size / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(size, report.reading.lines, report.rejected, size / wall, size / spent, peak)


def measure(sizes: list[int]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="numawise-logs-") as folder:
        for size in sizes:
            path = Path(folder) / "kubelet.log"
            write(path, size * 1_000_000)
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.logs", "--read", str(path)],
                capture_output=True,
                check=True,
                text=True,
            )
            path.unlink()
            yield Row(**json.loads(done.stdout))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, metavar="MB")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--read", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(asdict(read(options.read))))
        return 0
    rows = []
    print(f"{'MB':>8} {'lines':>12} {'rejected':>9} {'MB/s':>7} {'MB/s CPU':>9} {'peak MB':>8}")
    for row in measure([options.size // 8, options.size]):
        rows.append(row)
        read_ = f"{row.megabytes:8.0f} {row.lines:12,} {row.rejected:9,}"
        print(f"{read_} {row.wall:7.0f} {row.cpu:9.0f} {row.peak:8.0f}")
    print(f"goal: {GOAL:.0f} MB/s, and no more memory for the large one")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
