"""A cluster of virtual nodes on a real control plane: programs started one by one, and ended by their numbers.

The lab, the extender and the healer are ours, as a user would type them; everything else is Kubernetes.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from e2e.book import DAEMON, PodBook
from e2e.cluster import TOPOLOGIES, Api, ControlPlane, wait_for
from e2e.mixed_pods import pod
from e2e.schedulers import OURS, PLUGINS, PORT, USUAL, Back, configuration

NUMAWISE = Path(sys.executable).parent / "numawise"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
PAGES_PORT, LAB_PAGES = 9444, 9450


class World:
    """What a trial plays on; everything that was started is ended with it."""

    def __init__(
        self, programs: Path, matching: Path | None, folder: Path, *, lifecycle: bool = True
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.matching, self.folder = matching, folder
        without = () if lifecycle else ("--node-monitor-grace-period=2h",)
        self.plane = ControlPlane(programs, folder, scheduler=False, controllers=without)
        self.api = Api("127.0.0.1")

    def __enter__(self) -> Self:
        self.plane.__enter__()
        self.book = PodBook(self.api)
        return self

    def __exit__(self, *_: object) -> None:
        self.book.close()
        for name in [
            name for name in self.plane.running if name.startswith(("lab", "kube-scheduler", "extender"))
        ]:
            self.plane.stop(name)  # first those that write
        self.plane.__exit__()

    @property
    def access(self) -> tuple[str, str]:
        """For programs of ours."""
        return ("--kubeconfig", str(self.plane.kubeconfig))

    def lab(
        self,
        nodes: Path | Sequence[str],
        *options: str,
        name: str = "lab",
        count: int,
        seconds: float = 300,
    ) -> None:
        """Virtual nodes, until all are ready and publish what they should."""
        specs = [str(nodes)] if isinstance(nodes, Path) else list(nodes)
        flags = [flag for spec in specs for flag in ("--nodes", spec)]
        before, silent = self.ready_nodes(), "none" in options
        published = self.count(TOPOLOGIES)
        own = ("--lab", name, "--listen", "off")
        self.plane.start(name, "lab", *flags, *own, *self.access, *options, program=NUMAWISE)
        self.wait(
            f"{count} nodes of {name}",
            seconds,
            lambda: self.count(NODES) >= before + count and self.ready_nodes() - before >= count,
            name,
        )
        wanted = published + (0 if silent else count)
        self.wait("what they publish", seconds, lambda: self.count(TOPOLOGIES) >= wanted, name)

    def daemons(self) -> None:
        """A small pod on every node, as any real node has: NodeResourceTopologyMatch never forgives an empty one."""
        names = [item["metadata"]["name"] for item in self.listed("/api/v1/nodes")]
        for name in names:
            self.make(pod(f"{DAEMON}-{name}", [{}], nodeName=name, tolerations=[{"operator": "Exists"}]))

        def run() -> bool:
            return self.book.count(lambda line: line.is_daemon and bool(line.started)) == len(names)

        wait_for("the daemons", 120, run)

    def extender(self, *options: str, port: int = PORT, name: str = "extender") -> None:
        """Ours, until it is ready."""
        certificate = self.certificate()
        listen = (f"--listen=127.0.0.1:{port}", f"--pages=127.0.0.1:{port + 1}")
        keys = ("--tls-cert", str(certificate), "--tls-key", str(certificate.with_suffix(".key")))
        self.plane.start(name, "scheduler", *listen, *keys, *self.access, *options, program=NUMAWISE)
        self.wait_for_extender(port, name)

    def wait_for_extender(self, port: int = PORT, name: str = "extender") -> None:
        """Until it says that it is ready."""
        self.wait("the extender", 120, lambda: page(port + 1, "/readyz")[0] == 200, name)

    def scheduler(
        self,
        kind: str,
        back: Back = USUAL,
        *,
        name: str = "default-scheduler",
        port: int = PORT,
        url: str = "",
    ) -> None:
        """A scheduler of a kind, beside others of other names."""
        called = f"kube-scheduler-{name}"
        url = url or (f"https://127.0.0.1:{port}" if kind == OURS else "")
        trusted = str(self.certificate())
        made = configuration(kind, str(self.plane.kubeconfig), back=back, name=name, url=url, trusted=trusted)
        file = self.folder / f"{called}.json"
        file.write_text(json.dumps(made, indent=1))
        program = self.matching if kind == PLUGINS else self.plane.programs / "kube-scheduler"
        secure = 10359 + sum(one.startswith("kube-scheduler") for one in self.plane.running)
        self.plane.start(called, f"--config={file}", f"--secure-port={secure}", program=program)
        self.wait("the scheduler", 60, lambda: (self.plane.folder / f"{called}.log").stat().st_size, called)

    def certificate(self) -> Path:
        """For the loopback, signed by itself."""
        path = self.folder / "extender.crt"
        if not path.exists():
            command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
            command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
            command += ["-keyout", str(path.with_suffix(".key")), "-out", str(path)]
            subprocess.run(command, check=True, capture_output=True)
        return path

    def wait(self, what: str, seconds: float, condition: Callable[[], Any], program: str) -> None:
        """Until something has come about, or the program that should do it has ended."""

        def known() -> bool:
            child = self.plane.running[program]
            if child.poll() is not None:
                log = (self.plane.folder / f"{program}.log").read_text(errors="replace")[-1500:]
                raise RuntimeError(f"{program} ended with {child.returncode}:\n{log}")
            return bool(condition())

        wait_for(what, seconds, known)

    def listed(self, path: str) -> list[dict[str, Any]]:
        """All objects of a path."""
        status, answer = self.api.ask("GET", path)
        if status != 200:
            raise OSError(f"{path}: {status}")
        return list(answer["items"])

    def count(self, path: str) -> int:
        """How many objects of a path there are, without reading them all."""
        status, answer = self.api.ask("GET", f"{path}?limit=1")
        if status != 200:
            raise OSError(f"{path}: {status}")
        return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)

    def ready_nodes(self) -> int:
        return sum(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in self.listed("/api/v1/nodes")
            for condition in node["status"].get("conditions") or ()
        )

    def create(self, pods: Iterable[dict[str, Any]], rate: float = 0.0) -> None:
        """Make pods one after the other, at most so many a second (0: as fast as it goes)."""
        begin = time.monotonic()
        for number, manifest in enumerate(pods):
            if rate:
                time.sleep(max(0.0, begin + number / rate - time.monotonic()))
            self.make(manifest)

    def make(self, manifest: dict[str, Any]) -> None:
        """Make a pod; while the server is away, try again."""
        for _ in range(100):
            try:
                status, answer = self.api.ask("POST", PODS, manifest)
            except OSError:
                time.sleep(0.3)
                continue
            if status in (201, 409):
                return
            if status < 500 and status != 429:
                raise RuntimeError(f"pod {manifest['metadata']['name']}: {status} {answer}")
            time.sleep(0.3)
        raise TimeoutError("the API server did not come back")

    def remove(self, names: Iterable[str]) -> None:
        """Remove pods at once."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: self.api.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0"), names))

    def quiet(self, seconds: float, longest: float) -> bool:
        """Wait until nothing is bound, starts or ends for some seconds; False: it did not come to rest in time."""
        end = time.monotonic() + longest
        while time.monotonic() < end:
            lines = self.book.lines()
            last = max((max(line.came, line.bound, line.started, line.ended) for line in lines), default=0.0)
            unsettled = any(line.node and line.phase == "Pending" and not line.gone for line in lines)
            if not unsettled and time.monotonic() - last > seconds:
                return True
            time.sleep(0.5)
        return False


def page(port: int, path: str) -> tuple[int, str]:
    """What a page of one of our programs says."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        connection.close()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, what: str = "VmRSS") -> int:
    """Megabytes of a process: now, or at most (``VmHWM``)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(f"{what}:"))


class Every:
    """Something done again and again in a thread, until the block ends."""

    def __init__(self, seconds: float, action: Callable[[], None]) -> None:
        self.seconds, self.action = seconds, action
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.thread.join()

    def _run(self) -> None:
        while not self.ending.wait(self.seconds):
            self.action()
