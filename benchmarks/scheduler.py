"""The extender over HTTPS: filter and prioritize of one pod over thousands of nodes, as kube-scheduler asks.

    python -m benchmarks.scheduler --nodes 5000

The cluster is that of ``benchmarks.live_cluster``.  The client is another process with one connection, as
kube-scheduler has it.  Between two pods one is bound and one has gone.  CPU time is that of the extender
alone; the other times are what the client waits, and hang on what else the machine does.
"""

import argparse
import asyncio
import gc
import http.client
import json
import random
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.live_cluster import SIZES, api_pod, objects, resident
from numawise.apps.scheduler.certificates import CertificateFiles
from numawise.apps.scheduler.questions import Questions
from numawise.apps.scheduler.serving import Extender, ExtenderAddress
from numawise.apps.scheduler.web import Receive, Scope, Send, WebQuestions
from numawise.cluster.live import LiveCluster
from numawise.codec.cluster_pod import PodReading
from numawise.service.log import ServiceLog

TURNS = 400


class Followed(WebQuestions):
    """The extender's application; at ``/settle`` a pod is bound and another has gone."""

    def __init__(self, view: LiveCluster, log: ServiceLog) -> None:
        super().__init__(Questions(view, threading.RLock()), _no_capacity, lambda: True, log)
        self.draw, self.slim = random.Random(1), PodReading().slim

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/settle":
            self.settle(str(scope["query_string"], "ascii"))
        elif scope["path"] == "/spent":
            body = json.dumps([time.process_time(), resident()]).encode()
            headers = [(b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await super().__call__(scope, receive, send)

    def settle(self, name: str) -> None:
        view, now = self.questions.view, time.time()
        promise = view.promises.get(name)
        if promise is not None:
            value = api_pod(name, 0, promise.node)
            value["spec"]["containers"][0]["resources"]["limits"] = {
                key: str(amount) for key, amount in promise.pod.containers[0].limits.items()
            }
            view.take_pod(self.slim(value), now)
        host = view.names[self.draw.randrange(len(view.names))]
        for uid in list(view.views[host].pods)[:1]:
            view.take_pod(self.slim(api_pod(uid, 0, host)), now, gone=True)


async def _no_capacity(_query: Sequence[tuple[str, str]], _body: bytes) -> bytes:
    return b"{}"


def certificate(folder: Path) -> CertificateFiles:
    """For the loopback, signed by itself."""
    files = CertificateFiles(folder / "tls.crt", folder / "tls.key")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(files.key),
        "-out",
    ]
    subprocess.run([*command, str(files.certificate)], check=True, capture_output=True)
    return files


def serve(count: int) -> Iterator[str]:
    """A cluster and its extender; the client is started beside it."""
    before = resident()
    view, slim = LiveCluster(), PodReading().slim
    now = time.time()
    for api, text, pods in objects(count, random.Random(0)):
        name = api["metadata"]["name"]
        view.take_node(name, api, now)
        for value in pods:
            view.take_pod(slim(value), now)
        view.take_topology(name, json.loads(text), now)
    for name in view.names:  # the program does so when it has read everything
        view.situation(name, now)
    gc.collect()
    gc.freeze()
    yield f"{count} nodes: memory {resident() - before:.0f} MB"
    with tempfile.TemporaryDirectory() as folder:
        files = certificate(Path(folder))
        log = ServiceLog(sys.stderr, structured=True)
        extender = Extender(ExtenderAddress("127.0.0.1", 0, files), Followed(view, log), log)
        asyncio.run(extender.start())
        assert extender.bound is not None
        words = [str(extender.bound[1]), str(files.certificate), str(count)]
        yield from asked(words)
        asyncio.run(extender.stop())
    yield f"memory at the end {resident() - before:.0f} MB"


def asked(words: Sequence[str]) -> Iterator[str]:
    """What the client says, line by line."""
    command = [sys.executable, "-m", "benchmarks.scheduler", "--ask", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        for line in client.stdout:
            yield line.rstrip("\n")


class Client:
    """Asks as kube-scheduler does."""

    def __init__(self, port: int, trusted: str, count: int) -> None:
        context = ssl.create_default_context(cafile=trusted)
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=600)
        self.names = [f"n{number}" for number in range(count)]

    def post(self, path: str, body: bytes = b"") -> Any:  # noqa: ANN401 - JSON
        self.connection.request("POST", path, body, {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())

    def pod(self, value: dict[str, Any]) -> tuple[float, float, int]:
        """Milliseconds of both questions together, of CPU as well, and how many nodes are left."""
        spent = self.post("/spent")[0]
        body = json.dumps({"Pod": value, "Nodes": None, "NodeNames": self.names}).encode()
        begin = time.perf_counter()
        left = self.post("/filter", body)["NodeNames"]
        waited = time.perf_counter() - begin
        if len(left) > 1:
            body = json.dumps({"Pod": value, "Nodes": None, "NodeNames": left}).encode()
            begin = time.perf_counter()
            self.post("/prioritize", body)
            waited += time.perf_counter() - begin
        return waited * 1000, (self.post("/spent")[0] - spent) * 1000, len(left)


def ask(port: int, trusted: str, count: int) -> Iterator[str]:
    """Cold, then warm."""
    client = Client(port, trusted, count)
    for size in range(len(SIZES)):
        waited, cpu, left = client.pod(api_pod(f"cold-{size}", size))
        yield f"  cold, a new shape: {waited:.0f} ms, CPU {cpu:.0f} ms; {left} nodes left (goal: 500 ms)"
    times, spent = [], []
    for turn in range(TURNS):
        name = f"warm-{turn}"
        waited, cpu, _ = client.pod(api_pod(name, turn % len(SIZES)))
        times.append(waited)
        spent.append(cpu)
        client.post(f"/settle?{name}")
    for what, values in (("waited", times), ("CPU", spent)):
        values.sort()
        yield (
            f"  warm, filter and prioritize, {what}: median {values[len(values) // 2]:.1f} ms, 99 % "
            f"{values[len(values) * 99 // 100]:.1f} ms, longest {values[-1]:.1f} ms (goal: 99 % <= 50 ms)"
        )
    whole = api_pod("refused", 0)
    whole["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "30", "memory": "8Gi"}
    for turn in range(3):
        waited, cpu, left = client.pod(whole)
        yield f"  all nodes refuse ({left} left), time {turn + 1}: {waited:.0f} ms, CPU {cpu:.0f} ms"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduler", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--nodes", metavar="N", type=int, default=5000)
    parser.add_argument("--ask", nargs=3, metavar=("PORT", "CERTIFICATE", "N"), help="be the client")
    options = parser.parse_args()
    if options.ask:
        lines = ask(int(options.ask[0]), options.ask[1], int(options.ask[2]))
    else:
        lines = serve(options.nodes)
    for line in lines:
        print(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
