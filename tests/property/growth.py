"""Inputs that grow: files and a command line for every size, for the law of growth and its benchmark.

Each function makes the input of one size; an input of twice the size has twice as much of one thing.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import GPU, kubelet

EXAMPLE = Path(__file__).parents[2] / "examples/8gpu-server"
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STATIC = "memoryManagerPolicy: Static\ntopologyManagerPolicy: single-numa-node\n"
NODE = ("--machine", "8gpu-server", "--kubelet-config", str(EXAMPLE / "kubelet.yaml"))
CHECK = ("check", "--machine", "8gpu-server", "--kubelet-config", "{case}/kubelet.yaml")
PODS = "{case}/pods.json"
Input = tuple[Mapping[str, str | bytes], tuple[str, ...]]
"""Files by name, and the words of a command; ``{case}`` is the folder."""


# --- configurations ---------------------------------------------------------------------------


def _config(*lines: str) -> Input:
    return {"kubelet.yaml": HEAD + STATIC + "\n".join(lines) + "\n"}, CHECK


def reserved_names(n: int) -> Input:
    """Names in one entry of reservedMemory that are no resources."""
    return _config("reservedMemory:", "- numaNode: 0", "  limits:", *(f"    bad{i}: 1Gi" for i in range(n)))


def reserved_entries(n: int) -> Input:
    """Entries of reservedMemory, each with a wrong name."""
    rows = (f"- numaNode: {i}\n  limits:\n    bad{i}: 1Gi" for i in range(n))
    return _config("reservedMemory:", *rows)


def reserved_twice(n: int) -> Input:
    """Entries of reservedMemory for one NUMA node."""
    return _config("reservedMemory:", *(["- numaNode: 0\n  limits: {memory: 1Gi}"] * n))


def reserved_forms(n: int) -> Input:
    """Amounts that are lists."""
    return _config("reservedMemory:", "- numaNode: 0", "  limits:", *(f"    a{i}: [x]" for i in range(n)))


def kube_reserved(n: int) -> Input:
    """Names in kubeReserved that are no resources."""
    return _config("kubeReserved:", *(f"  a{i}: 1Gi" for i in range(n)))


def eviction(n: int) -> Input:
    """Signals of eviction that there are not."""
    return _config("evictionHard:", *(f"  a{i}.available: 1Gi" for i in range(n)))


def gates(n: int) -> Input:
    """Feature gates that there are not."""
    return _config("featureGates:", *(f"  Gate{i}: true" for i in range(n)))


def options(n: int) -> Input:
    """Options of a policy that there are not."""
    return _config("cpuManagerPolicyOptions:", *(f'  option-{i}: "true"' for i in range(n)))


def unknown_fields(n: int) -> Input:
    """Fields that there are not."""
    return _config(*(f"field{i}: 1" for i in range(n)))


def reserved_cpus(n: int) -> Input:
    """A long list of CPUs."""
    return _config(f'reservedSystemCPUs: "{",".join(str(2 * i) for i in range(n))}"')


def ignored(n: int) -> Input:
    """Comments that ignore findings."""
    return _config(*(f"# numawise: ignore NW{100 + i % 300}" for i in range(n)))


def taints(n: int) -> Input:
    """Taints, each twice."""
    rows = (f"- {{key: a{i // 2}, value: b, effect: NoSchedule}}" for i in range(n))
    return _config("registerWithTaints:", *rows)


# --- pods -------------------------------------------------------------------------------------


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def _asked(command: str, *pods: dict[str, Any]) -> Input:
    words = (*CHECK, PODS) if command == "check" else (command, *NODE, PODS)
    files = {"pods.json": json.dumps({"kind": "List", "apiVersion": "v1", "items": pods})}
    return {**files, "kubelet.yaml": (EXAMPLE / "kubelet.yaml").read_text()}, words


def _many_pods(command: str) -> Callable[[int], Input]:
    return lambda n: _asked(command, *(_pod(f"p{i}") for i in range(n)))


def _wrong_pods(n: int) -> Input:
    """Pods with limits that are refused, each with findings."""
    limits = {"cpu": "1500m", GPU: "99", "memory": "1Gi"}
    containers = [{"name": "c", "image": "x", "resources": {"limits": limits}}]
    return _asked("check", *(_pod(f"p{i}", containers=containers) for i in range(n)))


def _containers(command: str) -> Callable[[int], Input]:
    def made(n: int) -> Input:
        limits = {"cpu": "2", "memory": "1Mi"}
        rows = [{"name": f"c{i}", "resources": {"limits": limits}} for i in range(n)]
        return _asked(command, _pod("wide", containers=rows))

    return made


def _init_containers(n: int) -> Input:
    limits = {"cpu": "1", "memory": "1Mi"}
    rows = [{"name": f"i{i}", "resources": {"limits": limits}} for i in range(n)]
    return _asked("simulate", _pod("long", initContainers=rows))


def _parts(command: str, **rows: Callable[[int], object]) -> Callable[[int], Input]:
    """One pod with a long list of something."""

    def made(n: int) -> Input:
        return _asked(command, _pod("p", **{key: [row(i) for i in range(n)] for key, row in rows.items()}))

    return made


def _replicas(command: str) -> Callable[[int], Input]:
    def made(n: int) -> Input:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": _pod("x")["spec"]}
        value = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"}}
        return _asked(command, {**value, "spec": {"replicas": n, "template": template}})

    return made


def _variables(n: int) -> Input:
    """Variables of one container."""
    env = [{"name": f"V{i}", "value": str(i)} for i in range(n)]
    limits = {"cpu": "2", "memory": "1Gi"}
    return _asked("check", _pod("p", containers=[{"name": "c", "env": env, "resources": {"limits": limits}}]))


# --- clusters ---------------------------------------------------------------------------------


def _dump(command: str, n: int, pods: int = 0, *, exact: bool = False, **node: Any) -> Input:
    items = [{"kind": "Node", **api_node(f"n{i}", **node)} for i in range(n)]
    items += [{"kind": "Pod", **api_pod(f"p{i}", i % 3, f"n{i % n}", i)} for i in range(pods)]
    if exact:
        items += [published(kubelet(), f"n{i}") for i in range(n)]
    words = (command, "--nodes", "{case}/dump.json")
    return {"dump.json": json.dumps({"kind": "List", "items": items})}, words


def _labels(n: int) -> Input:
    files, words = _dump("nodes", 1)
    value = json.loads(files["dump.json"])
    value["items"][0]["metadata"]["labels"] = {f"l{i}": str(i) for i in range(n)}
    return {"dump.json": json.dumps(value)}, words


# --- files of a kubelet -----------------------------------------------------------------------


def _cpu_state(n: int) -> Input:
    entries = {f"pod-{i}": {"c": str(i % 200 + 2)} for i in range(n)}
    value = {"policyName": "static", "defaultCpuSet": "0-223", "entries": entries, "checksum": 0}
    return {"state/cpu_manager_state": json.dumps(value)}, ("state", "show", "{case}/state")


def _verified(n: int) -> Input:
    files, _ = _cpu_state(n)
    return files, ("check", *NODE, "--state", "{case}/state")


def _memory_state(n: int) -> Input:
    blocks = [{"numaAffinity": [0], "type": "memory", "size": 1 << 20} for _ in range(n)]
    value = {"policyName": "Static", "machineState": {}, "entries": {"pod": {"c": blocks}}, "checksum": 0}
    return {"state/memory_manager_state": json.dumps(value)}, ("check", *NODE, "--state", "{case}/state")


def _log(n: int) -> Input:
    line = 'I0815 22:24:53.{:06d} 1 topology_manager.go:215] "Topology Admit Handler" podUID="{}" podNamespace="a" podName="b{}"'
    return {"log": "\n".join(line.format(i, i, i) for i in range(n))}, ("why", "--log", "{case}/log")


INPUTS: dict[str, tuple[Callable[[int], Input], int]] = {
    "wrong names of reserved memory": (reserved_names, 100),
    "wrong entries of reserved memory": (reserved_entries, 70),
    "one NUMA node in many entries": (reserved_twice, 100),
    "amounts of another form": (reserved_forms, 100),
    "wrong names in kubeReserved": (kube_reserved, 100),
    "wrong signals": (eviction, 100),
    "unknown gates": (gates, 100),
    "unknown options": (options, 100),
    "unknown fields": (unknown_fields, 100),
    "reserved CPUs": (reserved_cpus, 1000),
    "comments": (ignored, 200),
    "taints": (taints, 100),
    "pods that are checked": (_many_pods("check"), 60),
    "pods that are simulated": (_many_pods("simulate"), 120),
    "pods that are explained": (_many_pods("why"), 120),
    "pods with findings": (_wrong_pods, 20),
    "containers that are checked": (_containers("check"), 120),
    "containers that are simulated": (_containers("simulate"), 9),
    "containers that are explained": (_containers("why"), 120),
    "init containers": (_init_containers, 60),
    "scheduling gates": (_parts("check", schedulingGates=lambda i: {"name": f"a/g{i}"}), 100),
    "tolerations": (_parts("simulate", tolerations=lambda i: {"key": f"k{i}", "operator": "Exists"}), 100),
    "volumes": (_parts("check", volumes=lambda i: {"name": f"v{i}", "emptyDir": {}}), 100),
    "variables": (_variables, 100),
    "replicas that are checked": (_replicas("check"), 200),
    "replicas that are simulated": (_replicas("simulate"), 200),
    "replicas that are explained": (_replicas("why"), 200),
    "nodes of a dump": (lambda n: _dump("nodes", n), 40),
    "published nodes": (lambda n: _dump("nodes", n, exact=True), 20),
    "pods of a dump": (lambda n: _dump("nodes", 4, n), 100),
    "places of a dump": (lambda n: _dump("capacity", n, 2 * n, exact=True), 15),
    "labels of a node": (_labels, 300),
    "pods of a state file": (_cpu_state, 100),
    "pods of a state file that is checked": (_verified, 100),
    "blocks of a state file": (_memory_state, 100),
    "lines of a log": (_log, 100),
}
"""What grows → how, and its smallest size: beyond the bounds up to which each thing is looked at by itself."""
