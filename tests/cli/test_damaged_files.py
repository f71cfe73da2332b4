"""Files that are nested without measure, cut off, of another kind or on a broken disk: one sentence, no crash."""

import gzip
import json
import random
from pathlib import Path

import pytest

from tests.cli.run import EXAMPLES, Ran, program, refused

CONFIG = EXAMPLES / "3gpu-server/kubelet.yaml"
NODE = ("--machine", "8gpu-server", "--kubelet-config", str(CONFIG))
POD = EXAMPLES / "3gpu-server/pods/01-3cpu/a-3cpu.yaml"
BROKEN = "/proc/self/mem"
"""It opens, and reading it is an input/output error."""
COMMANDS = [
    ("check", "FILE"),
    ("check", "--kubelet-config", "FILE"),
    ("check", "--kubelet-flags", "FILE"),
    ("check", "--machine", "FILE"),
    ("state", "show", "FILE"),
    ("show", "FILE"),
    ("discover", "--from", "FILE"),
    ("why", "--log", "FILE"),
    ("replay", "--jobs", "1", "FILE"),
    ("simulate", *NODE, "FILE"),
    ("simulate", *NODE, "--steps", "FILE"),
    ("simulate", "--nodes", "FILE", "--kubelet-config", str(CONFIG), str(POD)),
    ("bundle", "show", "FILE"),
]


def judge(ran: Ran) -> None:
    assert ran.status in range(4), ran.err
    assert "internal error" not in ran.err
    assert "Traceback" not in ran.err


DAMAGED = {
    "arrays.json": b"[" * 100_000,
    "closed.json": b"[" * 50_000 + b"]" * 50_000,
    "objects.json": b'{"a":' * 50_000,
    "deep.yaml": b"a: " + b"[" * 50_000,
    "cpu_manager_state": b'{"policyName":"static","defaultCpuSet":"","entries":' + b'{"a":' * 50_000,
    "kubelet_internal_checkpoint": b'{"Data":' + b"[" * 50_000 + b"]" * 50_000 + b',"Checksum":1}',
    "kubelet.log": b'I1115 10:00:00.000000       1 scope.go:1] "TopologyHints" hints=' + b'{"a":' * 20_000 + b"\n",
    "topology.xml": b"<topology>" + b"<object>" * 50_000,
    "cadvisor.json": b'{"topology":[' + b"[" * 50_000,
    "cut.jsonl.gz": gzip.compress(random.Random(1).randbytes(2000))[:400],
    "damaged.jsonl.gz": gzip.compress(b'{"scenario":1}\n' * 400)[:30] + b"XXXXXX",
    "bytes.yaml": b"\xff\xfe\x00\x01" * 100,
    "flags": b'KUBELET_EXTRA_ARGS="--cpu-manager-policy=st\xff\xfeatic --node-name=\xe9"\n',
    "keys.yaml": b'kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"a[b]": 1\n"[": 2\n"a[0].b[": 3\n',
    "digits.json": b'{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":'
    + b"9" * 5000
    + b"}}}]}}",
    "digits.yaml": b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, resources: {limits: {memory: '"
    + b"9" * 5000
    + b"Gi'}}}]}\n",
    "times.yaml": b"- at: " + b"9" * 5000 + b"h\n  remove: a\n",
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(DAMAGED[name])
    for command in COMMANDS:
        judge(program(*(word.replace("FILE", str(file)) for word in command)))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_broken_disk(command: tuple[str, ...]) -> None:
    ran = program(*(word.replace("FILE", BROKEN) for word in command))
    judge(ran)
    assert ran.status == 2
    assert BROKEN in ran.err


def test_quantities_and_times_of_thousands_of_digits(tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_bytes(DAMAGED["digits.yaml"])
    refused(
        program("simulate", *NODE, pod),
        "pod.yaml:3",
        "(5002 characters) is not a quantity",
        "no amount needs more",
    )
    refused(program("why", "--log", pod, "--since", "9" * 5000 + "h"), "--since", "is not a time")
    config = tmp_path / "kubelet.yaml"
    config.write_text(
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
        f"cpuManagerReconcilePeriod: {'9' * 5000}s\nmaxPods: {'9' * 60}\n"
    )
    judge(program("check", "--kubelet-config", config))
    judge(program("simulate", *NODE[:2], "--kubelet-config", config, POD))


def sysfs(root: Path, siblings: list[str], caches: list[str]) -> None:
    """Four CPUs whose kernel says this about their cores and last caches."""
    system = root / "sys/devices/system"
    files = {"cpu/online": "0-3", "cpu/possible": "0-3", "node/online": "0", "node/node0/cpulist": "0-3"}
    files |= {"node/node0/meminfo": "Node 0 MemTotal: 1024 kB", "node/node0/distance": "10"}
    for cpu in range(4):
        files |= {
            f"cpu/cpu{cpu}/topology/{name}": siblings[cpu]
            for name in ("thread_siblings_list", "core_cpus_list")
        }
        files |= {
            f"cpu/cpu{cpu}/topology/core_id": str(cpu // 2),
            f"cpu/cpu{cpu}/topology/physical_package_id": "0",
        }
        cache = f"cpu/cpu{cpu}/cache/index0"
        files |= {
            f"{cache}/level": "3",
            f"{cache}/type": "Unified",
            f"{cache}/shared_cpu_list": caches[cpu],
            f"{cache}/id": str(cpu),
        }
    for name, text in files.items():
        (system / name).parent.mkdir(parents=True, exist_ok=True)
        (system / name).write_text(f"{text}\n")


@pytest.mark.parametrize(("siblings", "caches"), [
    pytest.param(["4-5"] * 4,                    ["0-3"] * 4,             id="siblings without a CPU"),
    pytest.param([""] * 4,                       ["0-3"] * 4,             id="no siblings"),
    pytest.param(["0-1", "0-1", "2-3", "2-3"],   ["0", "1", "2", "3"],    id="one core, two caches"),
    pytest.param(["0-1", "1-2", "2-3", "3"],     ["0-1", "1-3", "2", ""], id="overlaps"),
    pytest.param(["0-4000000000"] * 4,           ["9" * 5000] * 4,        id="far too many"),
])  # fmt: skip
def test_a_kernel_that_contradicts_itself(siblings: list[str], caches: list[str], tmp_path: Path) -> None:
    sysfs(tmp_path, siblings, caches)
    for command in (
        ("discover", "--root", tmp_path),
        ("show", tmp_path, "--advice"),
        ("flags", "--machine", tmp_path, "--cpus", "1"),
        ("simulate", "--machine", tmp_path, POD),
        ("plan", "kubelet", "--machine", tmp_path),
        ("check", "--machine", tmp_path),
    ):
        judge(program(*command))


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "pods"
    folder.mkdir()
    (folder / "a.yaml").symlink_to(tmp_path / "gone")
    refused(program("simulate", *NODE, folder), "no file in it ends in .yaml")
    refused(program("simulate", *NODE, folder / "a.yaml"), "a.yaml: there is no such file; check the path")
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps([{"machine": "x" * 5000}]))
    refused(
        program("simulate", "--nodes", nodes, POD),
        "nodes.json:1: [0].machine: there is no file",
        "characters)",
    )
