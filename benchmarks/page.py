"""What a page's server bears: listeners on the event stream, reads at a steady rate, and what that costs it.

    python -m benchmarks.page [--seconds 60] [--listeners 200] [--reads 500] [--every 1] [--follow]

The server is a process of its own, the clients are in this one, over loopback.  The file of the served
machine is touched again and again, so that every listener is told, and answers about it are worked out anew.
Half of the reads have the entity tag of the answer before.  With ``--follow`` every listener reads the map
again when it is told, as the page does.  An error is anything but 200, or 304 where a tag was sent; a
connection that is lost; a listener that is told nothing.
"""

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.agent import cpu_seconds, status

ROOT = Path(__file__).parents[1]
MACHINE = ROOT / "examples/8gpu-server/machine.yaml"
CONFIG = ROOT / "examples/8gpu-server/kubelet.yaml"
ADDRESS = re.compile(r"http://([0-9.]+):([0-9]+)")
PATHS = (
    "/api/v1/map?width=1240",
    "/api/v1/overview",
    "/",
    "/core/main.js",
    "/style/base.css",
    "/api/v1/openapi.json",
    "/api/v1/machines",
    "/picture.css",
)
CONNECTIONS = 25
SAMPLES = 12
"""Looks at the server's memory."""


@dataclass
class Load:
    """What happened."""

    host: str
    port: int
    until: float
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    behind: float = 0.0
    """Seconds by which a read was sent later than it should have been, at most."""
    touched: float = 0.0
    events: int = 0
    delays: list[float] = field(default_factory=list)
    followed: list[float] = field(default_factory=list)
    """Seconds to the map, of those who were told of a change."""
    memory: list[int] = field(default_factory=list)
    """Kilobytes."""

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until


@contextlib.contextmanager
def served(words: Sequence[str], folder: str) -> Iterator[tuple[int, str, int]]:
    """A server: its process, address and port."""
    log = Path(folder, "log")
    environment = {**os.environ, "NUMAWISE_LEDGER": f"{folder}/ledger"}
    with log.open("w") as stream:
        server = subprocess.Popen(
            [sys.executable, "-m", "numawise", "serve", "--listen", "127.0.0.1:0", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        while not (found := ADDRESS.search(log.read_text())):
            if server.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.05)
        yield server.pid, found[1], int(found[2])
    finally:
        server.terminate()
        server.wait()


async def read(load: Load, number: int, rate: float) -> None:
    """One connection that asks at its rate, one thing after the other."""
    tags: dict[str, str] = {}
    reader, writer = await asyncio.open_connection(load.host, load.port)
    turn = number
    due = time.monotonic() + number / (rate * CONNECTIONS)
    try:
        while not load.is_over:
            await asyncio.sleep(max(due - time.monotonic(), 0))
            load.behind = max(load.behind, time.monotonic() - due)
            due += 1 / rate
            path = PATHS[turn % len(PATHS)]
            tag = tags.get(path, "") if turn // len(PATHS) % 2 else ""
            turn += 1
            begin = time.monotonic()
            answer, tags[path] = await ask(load, reader, writer, path, tag)
            load.latencies.append(time.monotonic() - begin)
            load.statuses[answer] += 1
            if answer != 200 and not (answer == 304 and tag):
                load.errors[f"{answer} {path}"] += 1
    except (OSError, EOFError, ValueError) as problem:
        load.errors[f"read: {type(problem).__name__}"] += 1
    finally:
        writer.close()


async def ask(
    load: Load, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, tag: str
) -> tuple[int, str]:
    """The status and the entity tag of an answer."""
    known = f"If-None-Match: {tag}\r\n" if tag else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {load.host}:{load.port}\r\n{known}\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.splitlines()
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    await reader.readexactly(int(fields.get("content-length", "0")))
    return int(first.split()[1]), fields.get("etag", "")


async def follow_up(load: Load, tags: dict[str, str]) -> None:
    """Read the map again, as a page does that was told of a change."""
    reader, writer = await asyncio.open_connection(load.host, load.port)
    try:
        begin = time.monotonic()
        answer, tags[PATHS[0]] = await ask(load, reader, writer, PATHS[0], tags.get(PATHS[0], ""))
        load.followed.append(time.monotonic() - begin)
        load.statuses[answer] += 1
        if answer not in (200, 304):
            load.errors[f"{answer} {PATHS[0]}"] += 1
    finally:
        writer.close()


async def listen(load: Load, *, follow: bool) -> None:
    """One page that listens for changes."""
    tags: dict[str, str] = {}
    reader, writer = await asyncio.open_connection(load.host, load.port)
    told = 0
    try:
        writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: {load.host}:{load.port}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        load.statuses[int(head.split()[1])] += 1
        while not load.is_over:
            try:
                async with asyncio.timeout(max(load.until - time.monotonic(), 0.001)):
                    line = await reader.readuntil(b"\n")
            except TimeoutError:
                break
            if line.startswith(b"event: changed"):
                told += 1
                load.events += 1
                load.delays.append(time.monotonic() - load.touched)
                if follow:
                    await follow_up(load, tags)
    except (OSError, EOFError, ValueError) as problem:
        load.errors[f"listen: {type(problem).__name__} {problem}"] += 1
    finally:
        writer.close()
    if not told:
        load.errors["listen: nothing was told"] += 1


async def touch(load: Load, file: Path, every: float) -> int:
    """Change the served file; how often."""
    times = 0
    while not load.is_over:
        await asyncio.sleep(every)
        load.touched = time.monotonic()
        os.utime(file)
        times += 1
    return times


async def measure(load: Load, pid: int, seconds: float) -> None:
    for _ in range(SAMPLES):
        await asyncio.sleep(seconds / SAMPLES)
        load.memory.append(status(pid, "VmRSS"))


def quantile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


async def bear(options: argparse.Namespace, load: Load, pid: int, file: Path) -> int:
    listeners = [asyncio.create_task(listen(load, follow=options.follow)) for _ in range(options.listeners)]
    readers = [
        asyncio.create_task(read(load, number, options.reads / CONNECTIONS)) for number in range(CONNECTIONS)
    ]
    measuring = asyncio.create_task(measure(load, pid, options.seconds))
    times = await touch(load, file, options.every)
    await asyncio.gather(*listeners, *readers, measuring)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page", description="What a page's server bears."
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--reads", type=float, default=500.0, help="a second, of all together")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two changes")
    parser.add_argument("--follow", action="store_true", help="listeners read the map when they are told")
    parser.add_argument("words", nargs="*", help="what numawise serve is told beside the machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Path(folder, "machine.yaml")
        shutil.copy(MACHINE, machine)
        words = ("--machine", str(machine), "--kubelet-config", str(CONFIG), *options.words)
        with served(words, folder) as (pid, host, port):
            load = Load(host, port, time.monotonic() + options.seconds)
            spent, begin = cpu_seconds(pid), time.monotonic()
            times = asyncio.run(bear(options, load, pid, machine))
            cpu = (cpu_seconds(pid) - spent) / (time.monotonic() - begin)
    took = options.seconds
    reads = len(load.latencies)
    print(f"{options.listeners} listeners, {reads / took:.0f} reads a second for {took:.0f} s")
    print(f"answers: {dict(sorted(load.statuses.items()))}; errors: {dict(load.errors) or 'none'}")
    print(
        "milliseconds to an answer: "
        + ", ".join(f"{name} {quantile(load.latencies, part) * 1000:.1f}" for name, part in
                    (("half", 0.5), ("99 %", 0.99), ("99.9 %", 0.999), ("longest", 1.0)))
        + f"; sent at most {load.behind * 1000:.0f} ms late"
    )  # fmt: skip
    print(
        f"events: {load.events} of {times} changes, "
        f"half within {quantile(load.delays, 0.5) * 1000:.0f} ms of the change, 99 % within "
        f"{quantile(load.delays, 0.99) * 1000:.0f} ms"
    )
    if load.followed:
        print(
            f"maps read again: {len(load.followed)}, "
            f"half within {quantile(load.followed, 0.5) * 1000:.0f} ms, "
            f"99 % within {quantile(load.followed, 0.99) * 1000:.0f} ms"
        )
    half = load.memory[len(load.memory) // 2 :]
    print(f"memory in MB: {' '.join(f'{size / 1000:.1f}' for size in load.memory)}")
    print(f"memory grew by {(half[-1] - half[0]) / 1000:.1f} MB in the second half; {cpu:.0%} of a core")
    return bool(load.errors)


if __name__ == "__main__":
    sys.exit(main())
