"""Virtual nodes: what one decision and one publication cost, and how a lab does at a real API server.

    python -m benchmarks.lab offline [--nodes N]
    python -m benchmarks.lab cluster --kubeconfig FILE [--nodes N] [--pods N]

``offline``: nodes of one kind in this process, pods one after the other, no server.  ``cluster``: a lab as a
process of its own at the API server of the kubeconfig; pods are bound to its nodes in turn as they are made,
so that no scheduler plays a part; the time is from the first pod to the last status.  It leaves the
cluster as it was, but for what its garbage collection still has to do.
"""

import argparse
import re
import resource
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.machines import GPU, even, node
from numawise.apps.lab.kubelet import LabKubelet
from numawise.apps.lab.node_object import NodeLook, kubelet_version, node_object
from numawise.apps.lab.published import published_value
from numawise.codec.node import node_from
from numawise.kube.calls import send
from numawise.kube.client import Cluster, access_to

NAMESPACE, PAGES = "default", "127.0.0.1:9899"
CONFIG = "examples/8gpu-server/kubelet.yaml"
COUNTED = re.compile(r"^(\S+?(?:\{.*\})?) (\S+)$", re.MULTILINE)


def pod(name: str, host: str) -> dict[str, Any]:
    limits = {"cpu": "2", "memory": "1Gi", GPU: "1"}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
        "spec": {
            "nodeName": host,
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}],
        },
        "status": {"phase": "Pending"},
    }


def offline(count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made, look = node(even(2, 64, 8, 512 << 30), "restricted", scope="pod"), NodeLook("lab", {})
    kubelets = [LabKubelet(f"n{number}", made) for number in range(count)]
    for kubelet in kubelets:
        kubelet.node.describe(node_from(node_object(kubelet.name, kubelet.node, look, 0.0)))
    for turn in range(4):
        begin = time.process_time()
        for number, kubelet in enumerate(kubelets):
            kubelet.take(pod(f"p{turn}-{number}", kubelet.name), 0.0)
        print(f"decide and start, pod {turn + 1} of each node: {_each(begin, count)}")
    begin = time.process_time()
    for kubelet in kubelets:
        published_value(kubelet.node, kubelet.name, kubelet_version(kubelet.node))
    print(f"make the object that is published: {_each(begin, count)}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"memory of {count} nodes with 4 pods each: {grown / 1024:.0f} MB")


def _each(begin: float, count: int) -> str:
    return f"{(time.process_time() - begin) / count * 1000:.2f} ms"


def at_cluster(kubeconfig: str, count: int, pods: int) -> None:
    words = ("--nodes", f"8gpu-server:{count}", "--kubelet-config", CONFIG, "--kubeconfig", kubeconfig)
    command = [sys.executable, "-m", "numawise", "lab", "--lab", "benchmark"]
    begin = time.monotonic()
    with (
        Cluster(access_to(kubeconfig, "")) as cluster,
        subprocess.Popen([*command, *words, "--listen", PAGES]) as lab,
    ):
        try:
            _wait(lambda now: now.get('numawise_lab_nodes{registered="yes"}') == count)
            print(f"{count} nodes registered: {time.monotonic() - begin:.1f} s")
            _idle()
            _many(cluster, count, pods)
            _idle()
        finally:
            lab.terminate()
            lab.wait()
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda number: _removed(cluster, number), range(pods)))
            subprocess.run([*command, "--remove", "--kubeconfig", kubeconfig], check=True)


def _many(cluster: Cluster, count: int, pods: int) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def make(number: int) -> None:
        value = pod(f"benchmark-{number}", f"8gpu-server-{number % count}")
        del value["metadata"]["uid"], value["status"]
        send(cluster, "POST", path, "create pods", value)

    before, begin = _metrics(), time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(pods)))
    made = time.monotonic() - begin
    done = "numawise_lab_admissions_total"
    after = _wait(
        lambda now: (
            _sum(now, done) - _sum(before, done) >= pods and not now['numawise_lab_waiting{lane="pods"}']
        )
    )
    seconds = time.monotonic() - begin
    cpu = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    print(
        f"{pods} pods made in {made:.1f} s, decided on and written in {seconds:.1f} s: "
        f"{pods / seconds:.0f} pods/s, {cpu:.1f} s of CPU"
    )


def _removed(cluster: Cluster, number: int) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/benchmark-{number}"
    send(cluster, "DELETE", path, "delete pods", {"gracePeriodSeconds": 0})


def _idle() -> None:
    before, begin = _metrics(), time.monotonic()
    time.sleep(20)
    after, seconds = _metrics(), time.monotonic() - begin
    cpu = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    beats = 'numawise_lab_requests_total{lane="heartbeats",outcome="ok"}'
    print(
        f"at rest: {100 * cpu / seconds:.0f} % of a CPU, "
        f"{after['process_resident_memory_bytes'] / 1e6:.0f} MB, "
        f"{(after[beats] - before.get(beats, 0)) / seconds:.0f} heartbeats/s"
    )


def _metrics() -> dict[str, float]:
    with urllib.request.urlopen(f"http://{PAGES}/metrics") as page:
        text = page.read().decode()
    return {found[1]: float(found[2]) for found in COUNTED.finditer(text) if found[1] != "#"}


def _sum(values: dict[str, float], name: str) -> float:
    return sum(value for key, value in values.items() if key.startswith(name))


def _wait(true: Any) -> dict[str, float]:  # noqa: ANN401 - a condition
    while True:
        try:
            now = _metrics()
        except OSError:
            now = {}
        if now and true(now):
            return now
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["offline", "cluster"])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--kubeconfig", default="")
    given = parser.parse_args()
    if given.what == "offline":
        offline(given.nodes)
    else:
        at_cluster(given.kubeconfig, given.nodes, given.pods)


if __name__ == "__main__":
    main()
